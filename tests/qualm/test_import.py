"""`import qualm`: cheap, and safe from what a project calls its own files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from qualm import __version__
from tests.support.projects.own_project import own_project


def python(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_is_cheap(tmp_path: Path) -> None:
    """It loads its own module and a few of the standard library."""
    code = "import sys; before = set(sys.modules); import qualm; print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    loaded = set(python(code, tmp_path).split())
    assert loaded - sys.stdlib_module_names == {"qualm"} and len(loaded) < 20


def test_version_of_the_distribution() -> None:
    from importlib.metadata import version

    assert version("qualm-bench") == __version__


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with files that must not be imported."""
    root = own_project(tmp_path_factory.mktemp("own") / "mine")
    for name in ("compiler.py", "registry/__init__.py", "runners/__init__.py", "runners/plugins/__init__.py"):
        (root / name).write_text("raise RuntimeError('shadowed')\n")
    return root


@pytest.mark.slow
@pytest.mark.parametrize("command", [["-m", "qualm", "validate"], ["-m", "qualm", "ls", "metrics"], ["-m", "qualm.runners", "-h"]])
def test_files_of_a_project_shadow_nothing(root: Path, command: list[str]) -> None:
    done = subprocess.run([sys.executable, *command], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_plugin_of_the_project_is_imported_in_spite_of_them(root: Path) -> None:
    code = "from qualm.registry.plugins import registry; print(registry.load('metrics', 'own_metric').__module__)"
    assert python(code, root) == "qualm.project.metrics.own_metric"
