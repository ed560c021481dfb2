"""Names of specs and of what stands in them, for the shell: of the spec on the line, else of the default."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import typer

from qualm.compiler.commands import completion

SPEC = """\
qualm: 1
name: {name}
datasets:
  scenes: {{card: synthetic_scenes, train: 5}}
  other: {{card: synthetic_scenes, test: [5, 6]}}
perturbations: [blur: {{radius: [1, 2]}}, typos]
models:
  {model}: {{hf_vlm: {{artifact: x}}}}
judges: [rules]
metrics: [ece: {{bins: [10, 15]}}, accuracy]
"""


def context(**params: object) -> typer.Context:
    line = typer.Context(click.Command("x"))
    line.params = params
    return line


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("specs", "registry/data", ".dvc"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "params.yaml").write_text("default: first\n")
    for name, model in (("first", "base"), ("second", "bold")):
        (tmp_path / f"specs/{name}.yaml").write_text(SPEC.format(name=name, model=model))
    (tmp_path / "registry/data/entry.dvc").write_text("")
    monkeypatch.chdir(tmp_path)
    for variable in ("COMP_WORDS", "_TYPER_COMPLETE_ARGS"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def test_specs() -> None:
    assert completion.specs(context(), "") == ["first", "second"] and completion.specs(context(), "s") == ["second"]


def test_what_stands_in_the_spec_on_the_line() -> None:
    assert completion.models(context(), "") == ["base"] and completion.models(context(spec="second"), "") == ["bold"]
    assert completion.models(context(spec="no such"), "") == []
    assert completion.datasets(context(), "") == ["other@test=5", "other@test=6", "scenes"]
    assert completion.metrics(context(), "ec") == ["ece"] and completion.metrics(context(), "a") == ["accuracy"]
    assert completion.perturbations(context(), "bl") == ["blur", "blur@radius=1", "blur@radius=2"]
    assert completion.perturbations(context(), "t") == ["typos"]


@pytest.mark.parametrize("variable", ["COMP_WORDS", "_TYPER_COMPLETE_ARGS"])
def test_words_are_looked_through_where_nothing_was_parsed(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "qualm show second -m")
    assert completion.models(context(), "") == ["bold"]
    monkeypatch.setenv(variable, "qualm show seconds -m")
    assert completion.models(context(), "") == ["base"]
    assert completion.models(context(spec="second"), "") == ["bold"]


def test_sides_of_a_comparison() -> None:
    assert completion.sides(context(), "") == ["first", "second", "base"]
    assert completion.sides(context(spec="second"), "b") == ["bold"]
    assert completion.sides(context(), "second:") == ["second:bold"] and completion.sides(context(), "second:x") == []
    assert completion.sides(context(), "gone:") == []


def test_models_for_the_doctor() -> None:
    assert completion.doctored(context(), "") == ["entry", "first:", "second:"]
    assert completion.doctored(context(), "e") == ["entry"] and completion.doctored(context(), "second:b") == ["second:bold"]


def test_what_gone_specs_left(project: Path) -> None:
    assert completion.leftovers(context(), "") == []
    (project / "specs/gone/stages").mkdir(parents=True)
    (project / "specs/gone/dvc.yaml").write_text("stages: {}\n")
    (project / "specs/gone/stages/score.json").write_text("{}")
    assert completion.leftovers(context(), "") == ["gone"]


def test_outside_a_project_there_is_nothing(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("bare"))
    for complete in (completion.specs, completion.models, completion.sides, completion.datasets, completion.leftovers, completion.doctored):
        assert complete(context(), "") == []
