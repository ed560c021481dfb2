"""Stages and plans as they are: what DVC is told of a stage, what a plan reads of others, one text for one value."""

import pytest

from qualm.compiler.plan.plan import Plan, PlannedStage, leaves
from qualm.compiler.spec.canonical_json import canonical


def stage(inputs: dict, outputs: dict, **more: object) -> PlannedStage:
    return PlannedStage("s", "infer", "", {}, inputs, outputs, 0, ("runners/stages/infer.py",), **more)


def test_what_a_stage_reads_and_writes() -> None:
    one = stage(
        {"model": "registry/data/m", "datasets": {"a": "results/t/data/a"}}, {"generations": {"a": "g/a.parquet", "b": "g/b.parquet"}}
    )
    assert list(leaves(one.inputs)) == ["registry/data/m", "results/t/data/a"]
    assert one.deps == ("registry/data/m", "results/t/data/a", "runners/stages/infer.py")
    assert one.outs == ("g/a.parquet", "g/b.parquet")


def test_a_folder_stands_for_the_paths_within_it() -> None:
    outputs = {"generations": {"a": "g/a.parquet", "b": "g/b.parquet"}, "log": "h/log.csv"}
    assert stage({}, outputs, folders=frozenset({"g"})).outs == ("g", "h/log.csv")


def test_a_plan_reads_the_results_of_other_specs() -> None:
    stages = (stage({"model": "results/other/models/sft", "dataset": "results/t/data/a", "source": "registry/data/x"}, {}),)
    assert Plan("t", "", stages).reads == {"other"}


def test_one_text_for_one_value() -> None:
    assert canonical({"b": 1, "a": "ü"}) == canonical({"a": "ü", "b": 1}) == '{\n "a": "ü",\n "b": 1\n}\n'
    assert canonical(15) != canonical(15.0)
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(float("nan"))
