"""A light installation: what others have recorded goes from spec to report without torch and its kin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qualm.registry.plugins.extras import EXTRAS
from tests.end_to_end.test_recorded_elsewhere import log

pytestmark = pytest.mark.slow
HEAVY = sorted({module for modules in EXTRAS.values() for module in modules} | {"torchvision", "torchmetrics", "tokenizers", "accelerate"})
HIDING = f"""\
import sys

class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}} in a light installation", name=name)

sys.meta_path.insert(0, Hiding())
"""
SPEC = """\
qualm: 1
name: theirs
datasets:
  science: {card: lm_eval_samples, source: science_log, task: science}
  capitals: {card: lm_eval_samples, source: science_log, task: capitals}
models:
  small: {recorded: {source: science_log, run: small}}
  large: {recorded: {source: science_log, run: large}}
judges: [rules]
estimators: [lexical_similarity]
conformal:
  ours: {scores: [lac, aps], alpha: 0.2}
metrics: [accuracy, coverage, set_size, ece: {bins: 10}, auroc]
compare: {baseline: small, interval: {bootstrap: 50}}
"""


@pytest.fixture
def light(tmp_path: Path) -> dict[str, str]:
    """The environment of processes to which those libraries are not there."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden/sitecustomize.py").write_text(HIDING)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PYTHONPATH": str(tmp_path / "hidden"), "PATH": path, "DVC_NO_ANALYTICS": "true", "QUALM_PROGRESS": "0"}


def qualm(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "qualm", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_recorded_answers_from_init_to_report(tmp_path: Path, light: dict[str, str]) -> None:
    log(tmp_path / "log")
    root = tmp_path / "mine"
    assert qualm(tmp_path, light, "init", "mine").returncode == 0
    (root / "specs/theirs.yaml").write_text(SPEC)
    for arguments in (
        ("data", "add", "science_log", "--from", str(tmp_path / "log"), "--card", "lm_eval_samples"),
        ("compile", "theirs"),
        ("plan", "theirs"),
        ("run", "theirs"),
        ("show", "theirs"),
    ):
        done = qualm(root, light, *arguments)
        assert done.returncode == 0, f"{arguments}:\n{done.stdout}\n{done.stderr}"
    assert (root / "results/theirs/report.html").is_file() and "accuracy" in done.stdout


def test_a_spec_that_needs_more_says_so(tmp_path: Path, light: dict[str, str]) -> None:
    assert qualm(tmp_path, light, "init", "mine").returncode == 0
    root = tmp_path / "mine"
    install = "pip install 'qualm-bench[models,pictures]'"
    for arguments in (["validate"], ["compile", "quickstart"], ["compile"]):
        done = qualm(root, light, *arguments)
        assert done.returncode == 0 and install in done.stderr, done.stderr
    assert "pip install 'qualm-bench[models]'" in qualm(root, light, "plan").stdout
    done = qualm(root, light, "run")
    assert done.returncode == 1 and install in " ".join(done.stdout.split()) and not (root / "dvc.lock").exists()
    stage = [sys.executable, "-m", "qualm.runners", "quickstart/infer-base-scenes"]
    assert subprocess.run(stage, cwd=root, env=light, capture_output=True, text=True, check=False).returncode == 1
