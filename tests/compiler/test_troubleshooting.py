"""docs/how-to/troubleshooting.md quotes messages as they are printed: each is produced here as a user would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qualm.compiler.run.run import hold_run_lock
from qualm.registry.plugins.registry import ROOT

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).resolve().parents[2] / "docs/how-to/troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = dict(re.findall(r"^### (.+?)\n\n```text\n(.+?)\n```$", PAGE, re.MULTILINE | re.DOTALL))
SPEC = """\
qualm: 1
name: mine
datasets:
  scenes: {card: synthetic_scenes, test: 24}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
estimators: [max_sequence_probability]
metrics: [accuracy, ece, auroc]
"""
LOCAL = "hf_vlm: {artifact: scene-vlm-base}"
API = "openai: {model: gpt-4o-2024-08-06}"
SERVER = 'openai: {model: toy, base_url: "http://127.0.0.1:9/v1"}'
SAMPLED = {"max_sequence_probability": "lexical_similarity", ", auroc": ""}
FAILURES: dict[str, tuple[dict[str, str], str]] = {
    "A key or parameter is misspelt": ({"metrics:": "metrcs:"}, "validate mine"),
    "The file is not YAML": ({"[rules]": "[rules"}, "validate mine"),
    "A tab": ({"  base": "\tbase"}, "validate mine"),
    "A space is missing after a colon": ({"test: 24": "test:24"}, "validate mine"),
    "There is no such dataset": ({"synthetic_scenes": "synthetic_scene"}, "validate mine"),
    "There is no such spec": ({}, "run mien"),
    "An estimator needs what the model does not give": ({LOCAL: API}, "run mine"),
    "A metric reads conformal sets": ({"auroc": "coverage"}, "validate mine"),
    "A filter names an unknown field": ({"test: 24": 'test: 24, where: "categry == 1"'}, "validate mine"),
    "A model's weights are not here": ({"scene-vlm-base": "my-vlm"}, "run mine"),
    "The hub does not answer": ({LOCAL: "hf_vlm: {hub: org/vlm}"}, "fetch mine"),
    "A hub model is not pinned yet": ({LOCAL: "hf_vlm: {hub: org/vlm}"}, "run mine"),
    "An image of your table is missing": ({}, "data new table --from ../table --yes"),
    "This folder is no project": ({}, "run"),
    "A key of an API is missing": ({LOCAL: API, **SAMPLED}, "run mine"),
    "A server does not answer": ({LOCAL: SERVER, **SAMPLED}, "run mine"),
    "A filter leaves nothing": ({"test: 24": "test: 24, where: \"category == 'x'\""}, "run mine"),
    "Another run is at work": ({}, "run mine"),
    "There are no results yet": ({}, "show mine"),
    "There is no remote to share with": ({}, "share mine"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("troubles")
    (folder / "table").mkdir()
    (folder / "table/test.csv").write_text("image,question,answer\n1.png,what?,it\n")
    assert "made project" in qualm(folder, "init", "project")
    return folder / "project"


def qualm(folder: Path, *arguments: str) -> str:
    hidden = {"OPENAI_API_KEY", "COLUMNS"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"PYTHONPATH": str(ROOT), "HF_ENDPOINT": "http://127.0.0.1:9", "DVC_NO_ANALYTICS": "1", "QUALM_PROGRESS": "0"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "qualm", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_page_has_twenty_failures() -> None:
    assert list(MESSAGES) == list(FAILURES) and len(MESSAGES) == 20


@pytest.mark.parametrize("name", FAILURES)
def test_the_message_is_printed_as_it_stands_on_the_page(project: Path, name: str) -> None:
    edits, command = FAILURES[name]
    text = SPEC
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    (project / "specs/mine.yaml").write_text(text)
    if name == "Another run is at work":
        with hold_run_lock(project) as other:
            assert other is None
            said = qualm(project, *command.split())
    else:
        said = qualm(project.parent if name == "This folder is no project" else project, *command.split())
    pattern = ".*".join(re.escape(" ".join(part.split())) for part in MESSAGES[name].split("..."))
    assert re.search(pattern, " ".join(said.split())), said
