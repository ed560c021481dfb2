"""A leaderboard of recorded answers: fetched, run and published as one command line, `make leaderboard` for two small specs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from qualm.compiler.viewing.chunks import content_of
from tests.support.processes.command_line import qualm
from tests.support.servers.hub_server import hub_server

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_python")]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CARD = """\
name: NAME_answers
kind: dataset
title: Recorded answers of NAME
description: d
adapter: recorded_samples
source: https://answers.example/NAME
licence: CC BY 4.0
citation: ""
layout:
  - {files: "*.csv", about: answers}
args: {format: table, run: good}
fetch:
  urls:
    good.csv: {url: URL/COMMIT/NAME-good.csv}
    poor.csv: {url: URL/COMMIT/NAME-poor.csv}
"""
SPEC = """\
qualm: 1
name: NAME
datasets: {NAME: {card: NAME_answers}}
models:
  good: {recorded: {source: NAME_answers, run: good}}
  poor: {recorded: {source: NAME_answers, run: poor}}
judges: [exact_match]
metrics: [accuracy]
compare: {interval: {bootstrap: 50}}
"""


def answers(n: int, n_right: int) -> bytes:
    rows = [f"{i},question {i},yes,{'yes' if i < n_right else 'no'}" for i in range(n)]
    return "\n".join(["id,question,answer,prediction", *rows, ""]).encode()


def chunk_of(site: Path, name: str) -> Any:
    """Return a JSON chunk of a published page."""
    return json.loads(content_of((site / f"data/{name}.js").read_bytes()))


def test_two_specs_are_fetched_run_and_published_together(tmp_path: Path) -> None:
    n_right = {"one": {"good": 18, "poor": 5}, "two": {"good": 12, "poor": 4}}
    files = {f"{COMMIT}/{name}-{run}.csv": answers(20, n) for name, runs in n_right.items() for run, n in runs.items()}
    with hub_server(**files) as hub:
        texts = {"params.yaml": "default: one\nseed: 7\n", ".gitignore": ".qualm/\n", ".dvc/config": ""}
        for name in ("one", "two"):
            card = CARD.replace("URL", f"{hub.url}/plain").replace("COMMIT", COMMIT)
            texts |= {f"registry/cards/{name}_answers.yaml": card.replace("NAME", name), f"specs/{name}.yaml": SPEC.replace("NAME", name)}
        for path, text in texts.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
        for command in ("fetch one two", "run one two", "view one two --publish leaderboard --title Models"):
            done = qualm(*command.split(), cwd=tmp_path, DVC_NO_ANALYTICS="1")
            assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "leaderboard"
    index = chunk_of(site, "index")
    assert index["title"] == "Models"
    results = {part["spec"]: part for part in index["results"]}
    assert results["one"]["sources"] == [
        {"dataset": "one", "title": "Recorded answers of one", "source": "https://answers.example/one", "licence": "CC BY 4.0",
         "revision": COMMIT},
    ]  # fmt: skip
    columns = {name: chunk_of(site, f"{name}/board")["columns"] for name in results}
    assert {name: of["value"] for name, of in columns.items()} == {"one": [0.9, 0.25], "two": [0.6, 0.2]}
