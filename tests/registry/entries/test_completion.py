"""Names for the shell to complete: those that begin as what was typed, and none where they cannot be found out."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import typer

from qualm.registry.entries import completion


def context(**params: object) -> typer.Context:
    line = typer.Context(click.Command("x"))
    line.params = params
    return line


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in (".dvc", "registry/data", "registry/cards", "specs", "deep/er"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "params.yaml").write_text("default: t\n")
    for name in ("mine-b", "mine-a", "other"):
        (tmp_path / f"registry/data/{name}.dvc").write_text("")
    (tmp_path / "registry/cards/mine-c.yaml").write_text("")
    (tmp_path / ".dvc/config").write_text("[core]\n    remote = lab\n['remote \"lab\"']\n    url = /x\n['remote \"late\"']\n    url = /y\n")
    monkeypatch.chdir(tmp_path / "deep/er")
    return tmp_path


def test_the_nearest_folder_with_dvc(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    assert completion.root() == project
    (project / "deep/.dvc").mkdir()
    assert completion.root() == project / "deep"
    (project / "deep/er/.dvc").mkdir()
    assert completion.root() == project / "deep/er"
    bare = tmp_path_factory.mktemp("bare")
    monkeypatch.chdir(bare)
    assert completion.root() == bare


def test_entries_and_cards_sorted_each_once(project: Path) -> None:
    assert completion.entries(context(), "") == ["mine-a", "mine-b", "other"]
    assert completion.entries(context(), "mine-b") == ["mine-b"] and completion.entries(context(), "ine") == []
    (project / "registry/cards/mine-b.yaml").write_text("")
    assert completion.data(context(), "mine") == ["mine-a", "mine-b", "mine-c"]
    assert completion.data(context(), "synthetic") == ["synthetic_scenes"] == completion.cards(context(), "synthetic")
    assert completion.cards(context(), "mine") == ["mine-b", "mine-c"]


def test_remotes_of_dvc(project: Path) -> None:
    assert completion.remotes(context(), "") == ["lab", "late"] and completion.remotes(context(), "lat") == ["late"]
    (project / ".dvc/config").write_text("no configuration")
    assert completion.remotes(context(), "") == []


def test_kinds_plugins_adapters_and_formats() -> None:
    assert completion.kinds(context(), "est") == ["estimators"]
    assert completion.plugins(context(kind="judges", published=False), "r") == ["rules"]
    assert completion.plugins(context(kind="no kind", published=False), "") == [] == completion.plugins(context(), "")
    published = completion.plugins(context(kind="models", published=True), "Qwen/Qwen2-VL-7B")
    assert published == ["Qwen/Qwen2-VL-7B-Instruct"]
    assert completion.adapters(context(), "") == ["vlmevalkit_tsv", "coco_folder", "image_table"]
    assert completion.exports(context(), "lm") == ["lm-eval", "lmms-eval"]


def test_what_fails_completes_to_nothing() -> None:
    @completion.quietly
    def broken(context: typer.Context, incomplete: str) -> list[str]:
        """Breaks."""
        raise OSError("gone")

    assert broken(context(), "") == [] and broken.__doc__ == "Breaks."
    assert completion.parameter_value(context(spec="x"), "spec") == "x" and completion.parameter_value(context(), "spec") is None
