"""Stages that write one path, and stages that wait for each other, are met."""

from pathlib import Path

import pytest

from qualm.compiler.plan.order import check_outputs, longest_chain_first, ordered, reads_from
from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.spec.errors import SpecError
from tests.compiler.plan.planned import resolved


def stage(name: str, reads: list[str], writes: str) -> PlannedStage:
    return PlannedStage(name, "data", "", {}, {str(i): r for i, r in enumerate(reads)}, {"x": writes}, 0, ())


def test_two_stages_that_write_one_path_are_met(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="stages 'a' and 'b' would both write results/t/x"):
        check_outputs([stage("a", [], "results/t/x"), stage("b", [], "results/t/x")], resolved(tmp_path))


def test_stages_that_wait_for_each_other_are_met(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="stages wait for each other in a circle: a, b"):
        ordered([stage("a", ["y"], "x"), stage("b", ["x"], "y")], resolved(tmp_path))


def test_two_stages_of_one_name_are_met(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="another stage has the name 'a', in upper or lower case"):
        check_outputs([stage("a", [], "x"), stage("a", [], "y")], resolved(tmp_path))


def test_stages_stand_after_what_they_read_and_else_as_they_were_made(tmp_path: Path) -> None:
    stages = [stage("d", ["z"], "w"), stage("a", [], "x"), stage("c", ["x", "y"], "z"), stage("b", ["x"], "y")]
    assert [s.name for s in ordered(stages, resolved(tmp_path))] == ["a", "b", "c", "d"]


def test_what_most_stages_wait_for_begins_first() -> None:
    before = {"data": set[str](), "asked": {"data"}, "tuned": {"data"}, "again": {"tuned", "elsewhere"}, "scores": {"asked", "again"}}
    assert longest_chain_first(list(before), before) == ["data", "tuned", "asked", "again", "scores"]


def test_names_and_paths_that_differ_in_case_alone_are_told_together(tmp_path: Path) -> None:
    """Some file systems would put two of them into one file."""
    with pytest.raises(SpecError) as caught:
        check_outputs([stage("a", [], "x"), stage("A", [], "y"), stage("b", [], "X"), stage("c", [], "z")], resolved(tmp_path))
    hint = "(rename a dataset or model)"
    assert [str(problem).partition(": ")[2] for problem in caught.value.problems] == [
        f"another stage has the name 'A', in upper or lower case {hint}",
        f"stages 'a' and 'b' would both write X {hint}",
    ]
    check_outputs([stage("a", [], "x"), stage("b", ["x"], "y")], resolved(tmp_path))


def test_files_that_windows_cannot_hold_are_met(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        check_outputs([stage("aux", [], "results/t/NUL.parquet"), stage("b", [], "results/t/model./x")], resolved(tmp_path))
    start, hint = "Windows could not hold the files of this spec: ", "(rename a dataset or model)"
    assert [str(problem).partition(": ")[2] for problem in caught.value.problems] == [
        f"{start}'NUL.parquet' is the name of a device {hint}",
        f"{start}'aux.json' is the name of a device {hint}",
        f"{start}'model.' ends with a dot {hint}",
    ]
    check_outputs([stage("blur@radius=2", [], "results/t/console/aux-1.x")], resolved(tmp_path))


def test_what_can_run_at_once_stands_together_and_what_others_wrote_is_there(tmp_path: Path) -> None:
    stages = [stage("a", [], "x"), stage("c", ["y"], "z"), stage("b", ["x", "elsewhere"], "y"), stage("e", [], "v"), stage("f", ["v"], "w")]
    assert [s.name for s in ordered(stages, resolved(tmp_path))] == ["a", "e", "b", "f", "c"]
    assert reads_from(stages) == {name: frozenset(of) for name, of in {"a": "", "c": "b", "b": "a", "e": "", "f": "e"}.items()}
    with pytest.raises(SpecError, match=r"in a circle: b, c, d \(take one out of what another of them reads\)"):
        ordered([stage("a", [], "x"), stage("b", ["x", "z"], "y"), stage("c", ["y"], "z"), stage("d", ["z"], "w")], resolved(tmp_path))
