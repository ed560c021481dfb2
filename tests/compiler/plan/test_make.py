"""Which stages a spec has, and in which order they run."""

from pathlib import Path

from qualm.compiler.plan.make import PLANNERS
from qualm.compiler.spec.canonical_json import canonical
from qualm.runners.contracts.stages import stage_kinds
from tests.compiler.plan.planned import SPEC, make


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
    assert PLANNERS.keys() == stage_kinds().keys()
