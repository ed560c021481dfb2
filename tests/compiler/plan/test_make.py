"""Which stages a spec has, and in which order they run."""

from pathlib import Path
from typing import Annotated

from qualm.compiler.plan.make import PLANNERS
from qualm.compiler.spec.canonical_json import canonical
from qualm.compiler.spec.language import Model, ReadBy
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


def test_keys_that_name_their_stage_are_its_parameters(tmp_path: Path) -> None:
    text = (
        SPEC.replace("test: 10}", "test: 10, skip_bad: true}", 1) + "unread: wrong\ninference: {max_new_tokens: 9}\nreport: {examples: 3}\n"
    )
    stages = {"data-scenes": "skip_bad", "score": "unread", "infer-base-scenes": "max_new_tokens", "report": "examples"}
    assert [make(tmp_path, text).stage(name).params[key] for name, key in stages.items()] == [True, "wrong", 9, 3]
    plain = [make(tmp_path).stage(name).params.get(key) for name, key in stages.items()]
    assert plain == [None, None, 16, 24], "defaults are left out, unless a key says otherwise"


def test_a_new_key_needs_only_its_model() -> None:
    class Extended(Model):
        effort: Annotated[int, ReadBy("infer")] = 0

    assert Extended(effort=3).parameters("infer") == {"effort": 3}
    assert Extended().parameters("infer") == {} == Extended(effort=3).parameters("score")
