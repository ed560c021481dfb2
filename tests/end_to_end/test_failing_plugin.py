"""A plugin of the project that raises: `qualm run` prints one line about it, and a log holds the traceback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from qualm.registry.system.failures import TRACEBACK
from tests.support.processes.forks import forks

RECIPE = '''
"""A pair recipe that fails."""

from qualm.registry.plugins.registry import DatasetName
from qualm.runners.contracts.pairs import PairContext


def broken(context: PairContext, *, dataset: DatasetName, category: str):
    """Fail."""
    yield {}["absent"]
'''
SPEC = """\
qualm: 1
name: t
taxonomy:
  epistemic:
    extraneous: {definition: The question is about something that the picture does not show.}
datasets:
  scenes: {card: synthetic_scenes, test: 6}
pairs:
  unanswerable:
    recipes:
      - broken: {dataset: scenes, category: epistemic/extraneous}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
metrics: [accuracy]
"""


def qualm(folder: Path, *arguments: str, traceback: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{forks().folder}{os.pathsep}{os.environ['PATH']}", TRACEBACK: traceback}
    command = [str(forks().python), "-m", "qualm", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("failing")
    assert qualm(folder, "init", "p").returncode == 0
    (folder / "p/runners/plugins/pairs").mkdir(exist_ok=True)
    (folder / "p/runners/plugins/pairs/broken.py").write_text(RECIPE)
    (folder / "p/specs/t.yaml").write_text(SPEC)
    return folder / "p"


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_one_line_names_the_stage_the_error_and_the_log(project: Path, jobs: str) -> None:
    before = {*(project / ".qualm/logs").glob("*.log")}
    done = qualm(project, "run", "t", "--jobs", jobs)
    (log,) = {*(project / ".qualm/logs").glob("t.pair-*.log")} - before
    lines = [line for line in done.stdout.splitlines() if "pair-" in line]
    assert done.returncode == 1 and done.stderr == "" and "dvc: " not in done.stdout and "Traceback" not in done.stdout
    assert len(lines) == 2 and "unexpected KeyError: 'absent'" in lines[0] and lines[0].endswith(f"traceback in .qualm/logs/{log.name}")
    assert "failed (" in lines[1]
    assert 'broken.py", line 10' in log.read_text() and log.read_text().startswith("t/pair-")


@pytest.mark.slow
def test_the_traceback_is_printed_too_where_it_is_asked_for(project: Path) -> None:
    for done in (qualm(project, "run", "t", traceback="1"), qualm(project, "run", "t", "-v")):
        assert done.returncode == 1 and "Traceback (most recent call last)" in done.stdout + done.stderr
        assert "traceback in .qualm/logs/t.pair-" in done.stdout + done.stderr
