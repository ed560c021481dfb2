"""The stage `spec`: what it writes, when it stops, and what it says then. With DVC: `tests/end_to_end/test_never_stale.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from qualm.compiler.plan.emit import MARKER
from qualm.compiler.project.checkout import Project
from qualm.compiler.project.spec_stage import run_spec_stage
from qualm.compiler.spec.errors import SpecError
from tests.support.projects.own_project import own_project, run

SPEC = """\
qualm: 1
name: {name}
datasets:
  scenes: {{card: synthetic_scenes, test: 6}}
models:
  base: {{hf_vlm: {{artifact: vlm}}}}
judges: [rules]
metrics:
  - ece: {{bins: 15}}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "specs").mkdir()
    (tmp_path / "registry/data/vlm").mkdir(parents=True)
    (tmp_path / "params.yaml").write_text("default: a\nseed: 7\n")
    for name in ("a", "b"):
        (tmp_path / f"specs/{name}.yaml").write_text(SPEC.format(name=name))
    monkeypatch.chdir(tmp_path)
    Project().compile(["a", "b"])
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def files(root: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in root.rglob("*") if path.is_file() and ".qualm" not in path.parts}


def test_where_all_is_in_step_only_its_output_is_written(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(root)
    assert run_spec_stage(Project(), "a") == 0 and capsys.readouterr().out == ""
    assert files(root) == {**before, root / "results/a/compiled": MARKER}


def test_a_value_goes_into_the_parameters_of_stages(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(root / "specs/b.yaml", "bins: 15", "bins: 7")
    before = (root / "specs/b/dvc.yaml").read_text()
    assert run_spec_stage(Project(), "b") == 0
    written = [line.partition(": ") for line in capsys.readouterr().out.splitlines()]
    assert {file for file, _, _ in written} == {"specs/b/stages/score.json", "specs/b/stages/report.json"}
    assert {how for _, _, how in written} == {"written from specs/b.yaml"}
    assert json.loads((root / "specs/b/stages/score.json").read_text())["params"]["metrics"]["ece"]["args"]["bins"] == 7
    assert (root / "specs/b/dvc.yaml").read_text() == before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("judges: [rules]", "judges: [rules]\nestimators: [perplexity]", "new: estimate; changed: report, score"),
        ("  base:", "  tiny:", "new: infer-tiny-scenes; gone: infer-base-scenes; changed: judge, report, score"),
    ],
)
def test_another_pipeline_is_written_and_the_run_stops(
    root: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    edit(root / "specs/a.yaml", old, new)
    assert run_spec_stage(Project(), "a") == 1
    assert capsys.readouterr().out == f"qualm: dvc.yaml changed ({said}): it is compiled now, run the same command again\n"
    assert not (root / "results/a/compiled").exists() and not Project().compile(["a"], check=True)
    assert run_spec_stage(Project(), "a") == 0


def test_in_the_queue_it_says_what_to_do_in_the_workspace(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / ".dvc/tmp/exps/standalone/x"
    for path, text in files(root).items():
        (folder / path.relative_to(root)).parent.mkdir(parents=True, exist_ok=True)
        (folder / path.relative_to(root)).write_text(text)
    monkeypatch.chdir(folder)
    edit(folder / "specs/b.yaml", "judges: [rules]", "judges: [rules]\nestimators: [perplexity]")
    assert run_spec_stage(Project(), "b") == 1
    advice = "make the same change in your workspace, run `qualm compile b`, commit, and queue the experiment again\n"
    assert capsys.readouterr().out.endswith(advice)


def test_another_default_moves_both_pipelines(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(root / "params.yaml", "default: a", "default: b")
    assert run_spec_stage(Project(), "a") == 1 and "specs/a/dvc.yaml changed" in capsys.readouterr().out
    assert "specs/b.yaml" in (root / "dvc.yaml").read_text() and not (root / "specs/b/dvc.yaml").exists()
    assert run_spec_stage(Project(), "a") == run_spec_stage(Project(), "b") == 0


def test_what_is_missing_is_named_and_mistakes_are_raised(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "registry/data/vlm").rmdir()
    assert run_spec_stage(Project(), "a") == 1
    assert capsys.readouterr().out == "qualm: registry/data/vlm: not here; `qualm fetch a` brings it, or says how you get it\n"
    edit(root / "specs/a.yaml", "bins: 15", "bns: 15")
    with pytest.raises(SpecError, match="did you mean 'bins'"):
        run_spec_stage(Project(), "a")


@pytest.mark.slow
def test_it_depends_on_the_files_of_the_project_that_a_plan_is_made_from(tmp_path: Path) -> None:
    """The specs that it extends and whose models it reads, cards, and plugins with what they import; nothing of an installed package."""
    root = own_project(tmp_path / "own")
    maker = SPEC.format(name="maker").replace("test: 6}", "test: 6}\n  train: {card: synthetic_scenes, train: 5, test: 5}")
    (root / "specs/maker.yaml").write_text(maker + "finetunes:\n  tuned: {sft: {base: base, train: [train]}}\n")
    (root / "specs/child.yaml").write_text('extends: small.yaml\nname: child\nmodels:\n  base: {hf_vlm: {artifact: "maker:tuned"}}\n')
    run(root, "qualm", "compile", "small", "child")
    own = ["registry/cards/own_scenes.yaml", "runners/plugins/metrics/_shared.py", "runners/plugins/metrics/own_metric.py"]
    for pipeline, name, specs in (
        ("dvc.yaml", "small", ["specs/small.yaml"]),
        ("specs/child/dvc.yaml", "child", ["specs/child.yaml", "specs/maker.yaml", "specs/small.yaml"]),
    ):
        stage = yaml.safe_load((root / pipeline).read_text())["stages"]["spec"]
        assert stage["deps"] == [f"specs/{name}/stages", *own, *specs] and stage["params"] == [{"params.yaml": None}]
