"""Stages and plans as they are: what DVC is told of a stage, what a plan reads of others, one text for one value."""

import pytest

from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.spec.canonical_json import canonical
from qualm.registry.parameters import nested_paths


def stage(inputs: dict, outputs: dict, **more: object) -> PlannedStage:
    return PlannedStage("s", "infer", "", {}, inputs, outputs, 0, ("runners/stages/infer.py",), **more)


def test_what_a_stage_reads_and_writes() -> None:
    one = stage(
        {"model": "registry/data/m", "datasets": {"a": "results/t/data/a"}}, {"generations": {"a": "g/a.parquet", "b": "g/b.parquet"}}
    )
    assert list(nested_paths(one.inputs)) == ["registry/data/m", "results/t/data/a"]
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


def test_what_dvc_compares_of_a_stage() -> None:
    """Versions and digests of code only where there are any; what is kept in git is small and a file."""
    plain = stage({"a": "x"}, {"scores": "t/scores.csv", "table": "t/table.parquet", "cards": {"a": "t/a.csv"}, "page": "t/metrics.json"})
    assert plain.tracked == {"params": {}, "seed": 0} and plain.kept_in_git == {"scores", "page"}
    assert plain.as_json() == {"kind": "infer", "inputs": plain.inputs, "outputs": plain.outputs, "params": {}, "seed": 0}
    told = stage({}, {}, package="abc", engine={"sampling": 2})
    assert told.tracked == {"params": {}, "seed": 0, "package": "abc", "engine": {"sampling": 2}}


def test_the_first_stage_that_writes_a_data_set_makes_it() -> None:
    made, curated, other = (
        PlannedStage(name, "data", "", {"dataset": label}, {}, {"dataset": f"t/{name}"}, 0, ())
        for name, label in (("data-a", "a"), ("curate-a", "a"), ("data-b", "b"))
    )
    plan = Plan("t", "", (made, stage({}, {"log": "t/log.csv"}), curated, other))
    assert plan.makers == {"a": made, "b": other} and plan.writers("dataset") == (made, curated, other) and plan.writers("none") == ()
    assert plan.stage("curate-a") is curated
