"""`specs/run.py`, by which every stage of a pipeline starts: whose Python it takes, and what it starts."""

from __future__ import annotations

import ast
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from qualm.compiler.plan import launcher

SOURCE = Path(launcher.__file__).read_text(encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose folders have names of libraries, with an interpreter in `.venv` that prints how it was called."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/run.py").write_text(SOURCE)
    for name in ("queue.py", "random.py", "specs/queue.py", "specs/importlib.py", "specs/pathlib.py"):
        (tmp_path / name).write_text("raise RuntimeError('no library')\n")
    (tmp_path / "qualm").mkdir()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    own = tmp_path / ".venv/bin/python"
    own.write_text('#!/bin/sh\necho "$0 $* in $(pwd)"\n')
    own.chmod(0o755)
    return tmp_path


def launched(project: Path, *arguments: str, python: tuple[str, ...] = (sys.executable,), **environment: str) -> str:
    environment = {**{name: value for name, value in os.environ.items() if name not in ("QUALM_PYTHON", "PYTHONPATH")}, **environment}
    command = [*python, "../specs/run.py", *arguments]
    (project / "deep").mkdir(exist_ok=True)
    done = subprocess.run(command, cwd=project / "deep", env=environment, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()


@pytest.mark.slow
def test_the_python_at_hand_where_it_has_qualm(project: Path) -> None:
    assert launched(project, "mini/judge").startswith("qualm: stage mini/judge: ")
    assert launched(project, "mini").startswith(f"qualm: {project}: no params.yaml and specs/ here or above")


def test_the_projects_own_environment_where_the_python_at_hand_has_no_qualm(project: Path) -> None:
    bare = (sys.executable, "-I", "-S")
    own = f"{project}/.venv/bin/python"
    assert launched(project, "mini/judge", python=bare) == f"{own} -P -m qualm.runners mini/judge in {project}"
    assert launched(project, "mini", python=bare) == f"{own} -P -m qualm.compiler mini in {project}"
    (project / ".venv/bin/python").unlink()
    assert "has no Qualm and there is no .venv in" in launched(project, "mini", python=bare)


def test_a_python_that_is_named(project: Path) -> None:
    assert launched(project, "mini", QUALM_PYTHON=sys.executable).startswith(f"qualm: {project}: no params.yaml")
    found = launched(project, "mini", QUALM_PYTHON="/nowhere/python")
    assert found == "qualm: QUALM_PYTHON names '/nowhere/python', and there is no such program"


def test_a_checkout_of_qualm_runs_its_own_code(project: Path) -> None:
    (project / "registry").mkdir()
    (project / "registry/places.py").touch()
    (project / ".venv/bin/python").write_text('#!/bin/sh\necho "$PYTHONPATH"\n')
    assert launched(project, "mini", python=(sys.executable, "-I", "-S"), PYTHONPATH="/more") == f"{project}{os.pathsep}/more"


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--help"], ["-x"]])
def test_how_it_is_called(project: Path, arguments: list[str]) -> None:
    assert "python3 specs/run.py SPEC/STAGE" in launched(project, *arguments)


def test_on_windows_it_waits_for_what_it_started(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    loaded = runpy.run_path(str(project / "specs/run.py"))
    monkeypatch.chdir(project)
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setattr(subprocess, "call", lambda command: calls.append(command) or 3)
    loaded["main"].__globals__["find_python"] = lambda root: "python.exe"
    assert loaded["main"](["mini/judge"]) == 3 and calls == [["python.exe", "-P", "-m", "qualm.runners", "mini/judge"]]


def test_old_pythons_can_read_it() -> None:
    ast.parse(SOURCE, feature_version=(3, 8))
    assert (Path(__file__).parents[3] / "specs/run.py").read_text(encoding="utf-8") == SOURCE
