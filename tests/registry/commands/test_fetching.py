"""`qualm data fetch` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qualm.registry.commands.cli import app
from qualm.registry.entries import card as cards
from tests.support.servers.hub_server import COMMIT, REPO, hub_server

pytest.importorskip("huggingface_hub")
run = CliRunner()
CARD = f"""name: things
kind: dataset
title: Things
description: d
adapter: image_table
source: https://x
licence: CC BY-NC 4.0
citation: ""
layout:
  - {{files: rows.jsonl, count: 1}}
  - {{files: picture.txt, at_least: AT_LEAST}}
fetch: {{repo: {REPO}, revision: {COMMIT}, files: [rows.jsonl], terms: "Not for commerce.", also: "the picture, from its painter"}}
"""


@pytest.fixture(autouse=True)
def hub(repo: Path, monkeypatch):
    (repo / "params.yaml").write_text("{}")
    for folder in ("specs", "registry/cards"):
        (repo / folder).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(repo)
    monkeypatch.setattr(cards, "folders", lambda: (repo / "registry/cards",))
    monkeypatch.setenv("COLUMNS", "140")
    with hub_server(**{"rows.jsonl": b'{"q": "?"}\n'}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def write(repo: Path, at_least: int = 0, **change: str) -> None:
    text = CARD.replace("AT_LEAST", str(at_least))
    for old, new in change.items():
        text = text.replace(old, new)
    (repo / "registry/cards/things.yaml").write_text(text)
    cards.read_card.cache_clear()


def test_a_licence_that_asks_is_asked_for(repo: Path, hub):
    write(repo)
    done = run.invoke(app, ["fetch", "things"])
    assert done.exit_code == 2 and "Not for commerce." in done.output and "--accept-licence" in done.output and hub.asked == []
    done = run.invoke(app, ["fetch", "things", "--dry-run"])
    assert done.exit_code == 0 and "things: 1 files, 11 B, from hub:org/things at aaaa" in done.output and hub.asked == []
    done = run.invoke(app, ["fetch", "things", "--accept-licence"])
    assert done.exit_code == 0, done.output
    assert "things: added version" in done.output and "1 checksums are new in registry/fetch.lock; commit it" in done.output
    done = run.invoke(app, ["fetch", "things", "--accept-licence"])
    assert done.exit_code == 2 and "is added already" in done.output
    done = run.invoke(app, ["fetch", "things", "--accept-licence", "--again", "--json"])
    assert done.exit_code == 0 and json.loads(done.output)["outcome"] == "unchanged" and json.loads(done.output)["revision"] == COMMIT


def test_what_is_missing_is_told_with_where_it_is(repo: Path):
    write(repo, at_least=1)
    done = run.invoke(app, ["fetch", "things", "--accept-licence"])
    assert done.exit_code == 1 and "what this does not fetch: the picture, from its painter" in done.output
    assert "picture.txt: expected at least 1, found 0" in done.output and "qualm data add things --from" in done.output


def test_errors_are_lines(repo: Path, hub):
    write(repo, **{f"revision: {COMMIT}": f"revision: {'c' * 40}"})
    done = run.invoke(app, ["fetch", "things", "--accept-licence"])
    assert done.exit_code == 1 and "there is no such revision" in done.output and "Traceback" not in done.output
    assert run.invoke(app, ["fetch", "thing"]).exit_code == 2
    done = run.invoke(app, ["fetch", "things", "--dry-run", "--json", "--revision", "main"])
    assert json.loads(done.output)["files_fetched"]["rows.jsonl"]["bytes"] == 11


def test_show_says_where_it_comes_from(repo: Path):
    write(repo)
    done = run.invoke(app, ["show", "things"])
    assert "huggingface.co/datasets/org/things at" in done.output and "To have it here: qualm data fetch things" in done.output


def test_a_card_that_names_no_commit_says_so_before_anything_comes(repo: Path, hub):
    write(repo, **{f", revision: {COMMIT}": ""})
    shown = run.invoke(app, ["show", "things"]).output
    assert f"the card names no commit of {REPO}" in " ".join(shown.split())
    refused = run.invoke(app, ["fetch", "things"])
    assert refused.exit_code == 1 and "its card pins no commit" in refused.output and hub.asked == []
    planned = run.invoke(app, ["fetch", "things", "--dry-run", "--revision", COMMIT])
    assert planned.exit_code == 0 and f"the card names no commit of {REPO}" in planned.output and hub.asked == []
