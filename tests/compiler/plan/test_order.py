"""Stages that write one path, and stages that wait for each other, are met."""

from pathlib import Path

import pytest

from qualm.compiler.plan.order import check_outputs, longest_chain_first, ordered
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
    with pytest.raises(SpecError, match="two stages would be called 'a'"):
        check_outputs([stage("a", [], "x"), stage("a", [], "y")], resolved(tmp_path))


def test_stages_stand_after_what_they_read_and_else_as_they_were_made(tmp_path: Path) -> None:
    stages = [stage("d", ["z"], "w"), stage("a", [], "x"), stage("c", ["x", "y"], "z"), stage("b", ["x"], "y")]
    assert [s.name for s in ordered(stages, resolved(tmp_path))] == ["a", "b", "c", "d"]


def test_what_most_stages_wait_for_begins_first() -> None:
    before = {"data": set[str](), "asked": {"data"}, "tuned": {"data"}, "again": {"tuned", "elsewhere"}, "scores": {"asked", "again"}}
    assert longest_chain_first(list(before), before) == ["data", "tuned", "asked", "again", "scores"]
