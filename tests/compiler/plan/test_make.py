"""Which stages a spec has, and in which order they run."""

from pathlib import Path

import pytest

from qualm.compiler.plan.make import PLANNERS
from qualm.compiler.spec.canonical_json import canonical
from qualm.compiler.spec.errors import SpecError
from qualm.runners.contracts.stages import stage_kinds
from tests.compiler.plan.planned import SPEC, make
from tests.support.checks.plugin_files import made_up


def test_stages_and_their_order(tmp_path: Path) -> None:
    names = [s.name for s in make(tmp_path).stages]
    assert sorted(names) == sorted(
        ["data-scenes", "data-scenes_mc", "infer-base-scenes", "infer-base-scenes_mc", "judge", "estimate", "calibrate", "score", "report"]
    )
    assert (
        names.index("data-scenes") < names.index("infer-base-scenes") < names.index("judge") < names.index("score") < names.index("report")
    )


def test_order_of_keys_is_no_content(tmp_path: Path) -> None:
    lines = SPEC.splitlines(keepends=True)
    reordered = "".join([*lines[:2], *lines[7:], *lines[2:7]]).replace("[accuracy, set_size]", "[set_size, accuracy]")
    assert [canonical(s.as_json()) for s in make(tmp_path).stages] == [canonical(s.as_json()) for s in make(tmp_path, reordered).stages]


def test_every_kind_of_stage_is_planned() -> None:
    assert PLANNERS.keys() == {*stage_kinds(), "stages"}


FIRST = """
KIND = StageKind(title="First by {stage}", reads=("datasets", "judgements"), writes={"points": "{stage}.csv"}, seeded=True)
def first(stage, *, k: int = 3):
    "Points."
"""
SECOND = """
KIND = StageKind(title="Second", reads=["points"], writes={"picture": "pictures/second.html"})
def second(stage):
    "A picture of all points."
"""


def test_they_read_what_others_write_in_any_order(tmp_path: Path) -> None:
    with made_up(tmp_path) as add:
        add("stages", "first", FIRST)
        add("stages", "second", SECOND)
        plan = make(tmp_path, f"{SPEC}stages: [second, first: {{k: [1, 2]}}]\n")
    one, second = plan.stage("first-k-1"), plan.stage("second")
    assert one.desc == "First by first@k=1" and one.seed == 7 and second.seed == 0
    assert one.inputs == {"datasets": plan.stage("judge").inputs["datasets"], "judgements": "results/t/judgements.parquet"}
    assert one.params == {"label": "first@k=1", "plugin": "first", "args": {"k": 1}}
    assert one.kept_in_git == {"points"} and not second.kept_in_git
    assert second.inputs == {"points": {"first@k=1": "results/t/first-k-1.csv", "first@k=2": "results/t/first-k-2.csv"}}
    names = [stage.name for stage in plan.stages]
    assert names.index("judge") < names.index("first-k-1") < names.index("second")
    assert plan.stage("report").params["spec_sha256"] != make(tmp_path).stage("report").params["spec_sha256"]


def test_what_nothing_writes_cannot_be_read(tmp_path: Path) -> None:
    with (
        made_up(tmp_path) as add,
        pytest.raises(SpecError, match="stage 'second' reads 'points', which nothing in this spec writes"),
    ):
        add("stages", "second", SECOND)
        make(tmp_path, f"{SPEC}stages: [second]\n")


def test_they_cannot_wait_for_each_other(tmp_path: Path) -> None:
    with made_up(tmp_path) as add, pytest.raises(SpecError, match="stages wait for each other in a circle"):
        add("stages", "first", FIRST.replace('"judgements"', '"picture"'))
        add("stages", "second", SECOND)
        make(tmp_path, f"{SPEC}stages: [first, second]\n")


def test_points_of_a_sweep_that_write_one_path(tmp_path: Path) -> None:
    with made_up(tmp_path) as add, pytest.raises(SpecError, match=r"would both write results/t/points\.csv"):
        add("stages", "first", FIRST.replace("{stage}.csv", "points.csv"))
        make(tmp_path, f"{SPEC}stages: [first: {{k: [1, 2]}}]\n")
