"""A small benchmark with results, which takes seconds to build."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qualm.compiler.project.checkout import Project


@pytest.fixture(scope="session")
def viewed_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the viewed project once per process; use it through `copy_viewed` only."""
    from tests.support.projects.viewed_project import viewed_project

    return viewed_project(tmp_path_factory.mktemp("template")).root


@pytest.fixture(scope="session")
def copy_viewed(viewed_template: Path) -> Callable[[Path], Project]:
    """Return a function that copies the viewed project into an empty folder."""
    return lambda root: Project(shutil.copytree(viewed_template, root, symlinks=True, dirs_exist_ok=True))
