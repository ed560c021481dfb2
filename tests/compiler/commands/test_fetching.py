"""`qualm fetch` as it is typed, against a server on this machine: dataset, model, pins, and the run that follows."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from qualm.registry.plugins.registry import ROOT
from tests.support.data.small_pictures import png
from tests.support.models.tiny_models import tiny_llava
from tests.support.processes import command_line
from tests.support.servers.hub_server import COMMIT, REPO, hub_server

pytest.importorskip("huggingface_hub")
pytestmark = pytest.mark.usefixtures("forked_python")
PYTHON = sys.executable
ROWS = 12
SPEC = f"""\
qualm: 1
name: mine
datasets:
  photos: {{card: photos, limit: 4}}
models:
  tiny: {{hf_vlm: {{hub: {REPO}}}}}
judges: [rules]
metrics: [accuracy]
"""
CARD = """\
name: photos
kind: dataset
title: Photos
description: d
adapter: image_table
source: https://photos.example/about
licence: CC BY-NC 4.0
citation: ""
layout:
  - {files: test.csv, count: 1}
  - {files: "photos/*.png", count: ROWS}
args: {files: {test: test.csv}, images: photos}
fetch:
  urls:
    test.csv: {url: URL/test.csv}
    photos.zip: {url: URL/photos.zip}
  unpack: {photos.zip: .}
  single:
    "photos/*.png": {url: "URL/{name}", instead_of: [photos.zip]}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in tiny_llava(tmp_path_factory.mktemp("model") / "weights").iterdir() if path.is_file()}


@pytest.fixture
def hub(model: dict[str, bytes]):
    table = "image,question,answer\n" + "".join(f"{i}.png,what is {i}?,it\n" for i in range(ROWS))
    images = {f"{i}.png": png(i) for i in range(ROWS)}
    with hub_server(**{"test.csv": table.encode()}, **images, **model) as server:
        server.large = {name for name in model if name.endswith(".safetensors")}
        yield server


@pytest.fixture
def project(tmp_path: Path, hub) -> Path:
    root = tmp_path / "project"
    files = {
        "params.yaml": "default: mine\nseed: 7\n",
        "specs/mine.yaml": SPEC,
        "registry/cards/photos.yaml": CARD.replace("URL", f"{hub.url}/plain").replace("ROWS", str(ROWS)),
        ".gitignore": ".qualm/\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text("")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True, capture_output=True)
    return root


def environment(root: Path, hub) -> dict[str, str]:
    return {
        **os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160", "HF_ENDPOINT": hub.url, "HF_HOME": str(root.parent / "hf"),
        "DVC_NO_ANALYTICS": "1", "PATH": f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip


def qualm(root: Path, hub, *arguments: str, code: int = 0) -> str:
    """What a command says; it runs in this process, which has read its settings of the hub before."""
    from huggingface_hub import constants

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HUB_CACHE", str(root.parent / "hf/hub"))
        done = command_line.qualm(*arguments, cwd=root, **environment(root, hub))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def process(root: Path, hub, *arguments: str, code: int = 0) -> str:
    """What a command says in a process of its own."""
    done = subprocess.run(
        [PYTHON, "-m", "qualm", *arguments], cwd=root, env=environment(root, hub), capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def images(hub) -> list[str]:
    return [path for path, _ in hub.asked if path.endswith(".png")]


@pytest.mark.slow
def test_a_spec_is_fetched_and_runs(project: Path, hub):
    planned = process(project, hub, "plan", "mine")
    assert "photos  `qualm fetch mine`" in planned and f"{REPO}  `qualm fetch mine`, which pins its commit" in planned
    refused = process(project, hub, "run", "mine", code=1)
    assert "qualm fetch mine" in refused and "Traceback" not in refused
    table = process(project, hub, "fetch", "mine", "--dry-run")
    assert f"hub:{REPO}@main at {COMMIT[:12]}" in table and "CC BY-NC 4.0" in table and "mit" in table and "to fetch: 2 of 2" in table
    assert (
        "addresses not tried when their cards were written: photos" in table
        and hub.asked == []
        and not (project / "registry/fetch.lock").exists()
    )
    fetched = process(project, hub, "fetch", "mine")
    assert "next: qualm run mine" in fetched and len(images(hub)) == 4 and "/plain/photos.zip" not in [path for path, _ in hub.asked]
    pins = json.loads((project / "registry/fetch.lock").read_text())
    assert pins[f"{REPO}@main"]["revision"] == COMMIT and list(pins["photos"]["sha256"]) == ["test.csv"]
    process(project, hub, "run", "mine")
    stage = json.loads((project / "specs/mine/stages/infer-tiny-photos.json").read_text())
    assert stage["params"]["model"]["args"]["revision"] == COMMIT
    again = process(project, hub, "fetch", "mine")
    assert "to fetch: 0 of 2" in again and len(images(hub)) == 4
    (project / "specs/mine.yaml").write_text(SPEC.replace("limit: 4", "limit: 6"))
    more = process(project, hub, "fetch", "mine")
    assert "2 more single files are needed" in more and len(images(hub)) == 6
    hub.commit = "c" * 40
    assert COMMIT[:12] in process(project, hub, "fetch", "mine", "--dry-run")
    moved = process(project, hub, "fetch", "mine", "--upgrade")
    assert f"at {'c' * 12}" in moved
    assert json.loads((project / "specs/mine/stages/infer-tiny-photos.json").read_text())["params"]["model"]["args"]["revision"] == "c" * 40


def test_a_limit_of_the_command_and_everything(project: Path, hub):
    (project / "specs/mine.yaml").write_text(SPEC.replace(", limit: 4", ""))
    qualm(project, hub, "fetch", "mine", "--limit", "3")
    assert len(images(hub)) == 3
    failed = qualm(project, hub, "fetch", "mine", code=1)
    assert "/plain/photos.zip: the server answered 404" in failed and "Traceback" not in failed


@pytest.mark.slow
def test_files_that_only_another_spec_needs_are_added_to_the_entry(project: Path, hub):
    card = project / "registry/cards/photos.yaml"
    more = "{url: URL/more.csv, when: {files: {test: more.csv}}}".replace("URL", f"{hub.url}/plain")
    text = card.read_text().replace("    photos.zip: {url", f"    more.csv: {more}\n    photos.zip: {{url")
    card.write_text(text.replace("  - {files: test.csv", "  - {files: more.csv, at_least: 0}\n  - {files: test.csv"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for i in range(ROWS):
            file.writestr(f"photos/{i}.png", png(i))
    hub.files |= {"more.csv": hub.files["test.csv"], "photos.zip": packed.getvalue()}
    (project / "specs/mine.yaml").write_text(SPEC.replace(", limit: 4", ""))
    other = SPEC.replace("name: mine", "name: other").replace("card: photos", "card: photos, files: {test: more.csv}")
    (project / "specs/other.yaml").write_text(other.replace(", limit: 4", ""))
    qualm(project, hub, "fetch", "mine")
    hub.asked.clear()
    said = qualm(project, hub, "fetch", "other")
    assert "other specs did not need more.csv" in " ".join(said.split())
    assert [path for path, _ in hub.asked if path.startswith("/plain")] == ["/plain/more.csv"]
    folder = project / "registry/data/photos"
    assert {path.name for path in folder.rglob("*.*")} == {"test.csv", "more.csv", *(f"{i}.png" for i in range(ROWS))}
    assert "to fetch: 0 of 2" in qualm(project, hub, "fetch", "other") and "to fetch: 0 of 2" in qualm(project, hub, "fetch", "mine")


def test_what_nobody_can_fetch_is_named(project: Path, hub):
    hub.gated = True
    card = (project / "registry/cards/photos.yaml").read_text()
    (project / "registry/cards/photos.yaml").write_text(card.partition("fetch:")[0])
    done = qualm(project, hub, "fetch", "mine", code=1)
    assert "get it from https://photos.example/about, then `qualm data add photos --from PATH --card photos`" in done
    assert f"accept terms: do so at {hub.url}/{REPO}, then set HF_TOKEN to a token of that account" in done


def test_several_specs_are_fetched_and_what_they_share_once(project: Path, hub):
    (project / "specs/other.yaml").write_text(SPEC.replace("name: mine", "name: other"))
    said = qualm(project, hub, "fetch", "mine", "other")
    assert said.index("mine:") < said.index("to fetch: 2 of 2") < said.index("other:") < said.index("to fetch: 0 of 2")
    assert said.endswith("next: qualm run mine other\n") and len(images(hub)) == 4
    report = json.loads(qualm(project, hub, "fetch", "mine", "other", "--json"))
    assert [item["what"] for item in report["items"]] == ["photos", REPO] and report["fetched"] == {}


def test_terms_are_accepted_first(project: Path, hub):
    path = project / "registry/cards/photos.yaml"
    path.write_text(path.read_text() + '  terms: "Not for commerce."\n')
    refused = qualm(project, hub, "fetch", "mine", code=2)
    assert "Not for commerce." in refused and "--accept-licence" in refused and hub.asked == []
    report = json.loads(qualm(project, hub, "fetch", "mine", "--accept-licence", "--json"))
    assert {item["what"]: item["state"] for item in report["items"]} == {"photos": "to fetch", REPO: "to fetch"} and not report["failed"]
    assert report["fetched"]["photos"].startswith("added version")


@pytest.mark.slow
def test_an_interrupt_is_clean_and_goes_on(project: Path, hub):
    hub.files["test.csv"] += b"x.png,none?,it\n" * 100_000
    hub.pause = 0.2
    command = [PYTHON, "-m", "qualm", "fetch", "mine"]
    running = subprocess.Popen(
        command, cwd=project, env=environment(project, hub), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    part = project / ".qualm/fetched/photos/files/test.csv.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size):
        assert running.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=30)[0]
    assert running.returncode == 130 and said.rstrip().endswith("interrupted") and "Traceback" not in said
    begun, hub.pause = part.stat().st_size, 0.0
    qualm(project, hub, "fetch", "mine", code=1)  # 12 photos, 100,012 rows
    assert ("/plain/test.csv", f"bytes={begun}-") in hub.asked


def test_models_within_plugins_are_pinned_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from qualm.compiler.project.checkout import Project

    nested = SPEC.replace("card: photos, limit: 4", "card: synthetic_scenes, test: 4") + (
        "estimators: [{semantic_entropy: {nli: {hf: {hub: a/nli, revision: v1}}}}]\ninference: {draws: 2}\n"
    )
    pins = {f"{REPO}@main": "a" * 40, "a/nli@v1": "b" * 40, "a/nli@main": "c" * 40}
    lock = {name: {"source": "hub", "revision": commit, "sha256": {}} for name, commit in pins.items()}
    files = {"params.yaml": "default: mine\n", "specs/mine.yaml": nested, "registry/fetch.lock": json.dumps(lock)}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    plan = Project().plan()
    assert "registry/fetch.lock" in plan.sources
    (estimator,) = plan.stage("estimate").params["estimators"]
    assert estimator["args"]["nli"]["args"]["revision"] == "b" * 40
    assert plan.stage("infer-tiny-photos").params["model"]["args"]["revision"] == "a" * 40


def test_what_another_spec_needs_is_fetched_with_its_reader(project: Path, hub):
    own, finetune = SPEC.replace("name: mine", "name: tuned"), "finetunes: {sft: {sft: {base: tiny, train: [photos]}}}\n"
    (project / "specs/tuned.yaml").write_text(own.replace("limit: 4", "limit: 4, evaluate: true") + finetune)
    reader = ["qualm: 1", "name: reader", "datasets: {scenes: {card: synthetic_scenes, test: 4}}", "judges: [rules]", "metrics: [accuracy]"]
    (project / "specs/reader.yaml").write_text("\n".join([*reader, 'models: {theirs: {hf_vlm: {artifact: "tuned:sft"}}}', ""]))
    said = qualm(project, hub, "fetch", "reader", "--dry-run")
    assert "tuned: makes the models sft; `qualm run reader` runs it first, and what it needs is in this table" in " ".join(said.split())
    rows = {row["what"]: row["state"] for row in json.loads(qualm(project, hub, "fetch", "reader", "--dry-run", "--json"))["items"]}
    assert rows == {"tuned": "by a run", "photos": "to fetch", REPO: "to fetch"}
