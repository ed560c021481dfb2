"""`qualm init`: what it makes, and that the package is left as it was."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from qualm.compiler.project.checkout import Project
from qualm.compiler.project.new_project import write_project
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.entries.card import CardError, card_names, load_card, new_cards_folder
from qualm.registry.entries.entries import find
from qualm.registry.places import PACKAGE
from qualm.registry.plugins import registry
from qualm.runners.contracts.stages import stage_kind
from tests.support.projects.own_project import CARD, METRIC, own_project

pytestmark = pytest.mark.usefixtures("forked_python")


def test_a_new_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write_project(tmp_path / "mine")
    assert "qualm run" in text
    root = tmp_path / "mine"
    assert {"README.md", "params.yaml", "qualm.toml", "specs", "registry", "runners", ".git", ".dvc"} <= {p.name for p in root.iterdir()}
    staged = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    assert "specs/quickstart.yaml" in staged and not {"qualm.toml", "specs/spec.schema.json"} & set(staged)
    monkeypatch.chdir(root)
    entry = find(root, "scene-vlm-base")
    assert entry.where == "cache" and entry.card == "scene-vlm-base"
    project = Project()
    project.compile()
    assert [s.name for s in project.plan().stages] == [s.name for s in Project(PACKAGE).plan("quickstart").stages]


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(ProjectError, match="expected a new name or an empty folder"):
        write_project(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_what_git_says_when_it_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "file/git"))
    with pytest.raises(ProjectError, match=r"mine: `git init -q` ended with 128: fatal: .*file"):
        write_project(tmp_path / "mine")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProjectError, match="git is not installed; a project needs git and DVC: install it and try again"):
        write_project(tmp_path / "other")


@pytest.mark.slow
def test_one_that_cannot_be_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("qualm.compiler.project.checkout.write_schema", full)
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        with pytest.raises(OSError, match="No space left"):
            write_project(tmp_path / name)
    assert [p.name for p in tmp_path.rglob("*")] == ["empty"]


def test_cards_and_plugins_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = own_project(tmp_path / "mine")
    monkeypatch.chdir(root / "specs")
    assert load_card("own_scenes").adapter == "synthetic_scenes" and {"own_scenes", "synthetic_scenes"} <= set(card_names())
    assert new_cards_folder() == root / "registry/cards"
    assert registry.get("metrics", "own_metric").path == root / "runners/plugins/metrics/own_metric.py"
    assert {"own_metric", "accuracy"} <= set(registry.names("metrics"))


def test_stages_depend_on_the_files_of_the_project_and_on_the_package_by_a_parameter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = own_project(tmp_path / "mine")
    monkeypatch.chdir(root)
    plan = Project().plan()
    own = ("runners/plugins/metrics/_shared.py", "runners/plugins/metrics/own_metric.py")
    assert {s.name: s.code for s in plan.stages if s.code} == {"score": own, "report": own}
    assert all(bool(stage.package) is not stage_kind(stage.kind).costly for stage in plan.stages)


def test_a_name_that_the_package_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = own_project(tmp_path / "mine")
    (root / "runners/plugins/metrics/ece.py").write_text(METRIC.replace("own_metric", "ece"))
    (root / "registry/cards/synthetic_scenes.yaml").write_text(CARD.replace("own_scenes", "synthetic_scenes"))
    monkeypatch.chdir(root)
    with pytest.raises(registry.PluginError) as plugin:
        registry.get("metrics", "ece")
    assert str(root / "runners/plugins/metrics/ece.py") in str(plugin.value)
    assert str(PACKAGE / "runners/plugins/metrics/ece.py") in str(plugin.value)
    with pytest.raises(CardError) as card:
        load_card("synthetic_scenes")
    assert str(root / "registry/cards/synthetic_scenes.yaml") in str(card.value) and str(PACKAGE / "registry/cards") in str(card.value)


def test_no_card_is_written_outside_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CardError, match="`qualm init NAME` makes a project"):
        new_cards_folder()
