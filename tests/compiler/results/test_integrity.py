"""Result files against the hashes in dvc.lock. Which commands compare them: tests/compiler/commands/test_changed_results.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.integrity import changed_results, edited_since, may_publish
from qualm.compiler.results.scores import score_stage_of
from tests.runners.reporting import pair_results
from tests.support.projects.recorded import record_results

SPEC = """\
qualm: 1
name: small
title: Before
datasets:
  scenes: {card: synthetic_scenes, level: easy, format: open, test: 24}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
metrics: [accuracy, ece: {bins: 15}]
"""
SCORES = "results/small/scores.parquet"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Something lies at the place of every output, and the lock has its hash."""
    made = pair_results.project(tmp_path, SPEC)
    for stage in made.plan("small").stages:
        for path in stage.outs:
            file = tmp_path / path if Path(path).suffix else tmp_path / path / "samples.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(path)
    record_results(made, "small")
    return made


def everything(project: Project) -> list[str]:
    return [path for stage in project.plan("small").stages for path in stage.outs]


def test_only_what_differs_is_reported(project: Project) -> None:
    root = project.root
    assert changed_results(root, everything(project)) == []
    (root / SCORES).write_text("edited")
    (root / "results/small/metrics.json").unlink()
    (root / "results/small/mine.txt").write_text("in no lock")
    (root / "notes.txt").write_text("no result")
    said = [f"{SCORES} differs from what was recorded in dvc.lock; `qualm run small` restores it"]
    assert changed_results(root, [*everything(project), "results/small/mine.txt", "notes.txt", "/etc/hosts"]) == said
    assert changed_results(root, [root / SCORES, SCORES]) == said
    assert changed_results(root, ["results/small/judgements.parquet"]) == []


def test_a_file_stands_for_the_folder_that_was_recorded(project: Project) -> None:
    samples = "results/small/data/scenes/samples.parquet"
    assert changed_results(project.root, [samples]) == []
    (project.root / samples).write_text("edited")
    (notice,) = changed_results(project.root, [samples])
    assert notice.startswith("results/small/data/scenes differs")


def test_many_files_are_one_notice(project: Project) -> None:
    files = [path for path in everything(project) if Path(path).suffix]
    for path in files:
        (project.root / path).write_text("edited")
    (notice,) = changed_results(project.root, files)
    named = f"{', '.join(files[:3])} and {len(files) - 3} more"
    assert notice == f"{named} differ from what was recorded in dvc.lock; `qualm run small` restores them"
    (notice,) = changed_results(project.root, files[:2])
    assert notice.startswith(f"{files[0]} and {files[1]} differ from")


def test_a_spec_with_a_lock_of_its_own(project: Project) -> None:
    (project.root / "dvc.lock").unlink()
    record_results(project, "small", "specs/small/dvc.lock")
    (project.root / SCORES).write_text("edited")
    (notice,) = changed_results(project.root, [SCORES])
    assert "recorded in specs/small/dvc.lock" in notice


def test_a_lock_that_cannot_be_read_is_no_proof(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    (project.root / "dvc.lock").write_text("<<<<<<< HEAD\n")
    (notice,) = changed_results(project.root, [SCORES])
    assert notice.startswith("results could not be compared with their recorded hashes: ") and "dvc.lock" in notice
    assert not may_publish(project.root, [SCORES], force=False) and may_publish(project.root, [SCORES], force=True)
    assert "nothing was written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (("bins: 15", "bins: 7"), "score: parameter metrics.ece.args.bins: 15 -> 7"),
        (("test: 24", "test: 30"), "data-scenes: parameter args.test: 24 -> 30"),
        (("  base:", "  other: {hf_vlm: {artifact: scene-vlm-base}}\n  base:"), "infer-other-scenes: is new"),
        (("title: Before", "title: After"), ""),
        (("qualm: 1", "# a comment\nqualm: 1"), ""),
    ],
)
def test_scores_of_an_earlier_version_of_the_spec(project: Project, edit: tuple[str, str], what: str) -> None:
    (project.root / "specs/small.yaml").write_text(SPEC.replace(*edit))
    plan = Project(project.root).plan("small")
    said = edited_since(project.root, plan, score_stage_of(plan))
    expected = f"results are of an earlier version of specs/small.yaml or params.yaml ({what}); `qualm plan small` shows what would run"
    assert said == (expected if what else "")


def test_what_never_ran_is_of_no_earlier_version(project: Project) -> None:
    (project.root / "dvc.lock").unlink()
    plan = project.plan("small")
    assert edited_since(project.root, plan, score_stage_of(plan)) == ""
