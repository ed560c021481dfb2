"""The package's root and the project's."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.registry.places import PACKAGE, is_checkout, project_folder, project_root


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "specs").mkdir()
    (tmp_path / "params.yaml").write_text("default: x\n")
    return tmp_path.resolve()


def test_the_package_holds_our_folders() -> None:
    assert {"compiler", "registry", "runners"} <= {p.name for p in PACKAGE.iterdir()}


def test_the_project_is_the_nearest_folder_upwards(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "a" / "b").mkdir(parents=True)
    assert project_root(project / "a" / "b") == project_root(project) == project
    assert project_root(project.parent) is None
    monkeypatch.chdir(project / "a")
    assert project_root() == project
    (project / "a" / "params.yaml").write_text("default: x\n")
    (project / "a" / "b" / "specs").mkdir()
    assert project_root(project / "a" / "b") == project, "a project has both"


def test_a_checkout_has_no_folders_of_its_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PACKAGE)
    assert is_checkout(PACKAGE) and project_folder("registry/cards") is None
    monkeypatch.chdir(project.parent)
    assert project_folder("registry/cards") is None
    monkeypatch.chdir(project)
    assert not is_checkout(project) and project_folder("registry/cards") == project / "registry/cards"
