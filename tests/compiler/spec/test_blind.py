"""The spec's `blind:` section: what it resolves to, what is planned and tested, what is refused."""

from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.results.scores import derived_models
from qualm.compiler.spec.errors import SpecError
from tests.compiler.spec.resolving import resolve

SPEC = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, test: 10}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
  other: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
abstentions:
  careful: {risk_control: {}, of: [base], fit: half}
blind: {refuser: [base], swapped: [base, other], removed: [other]}
metrics: [accuracy]
compare: {baseline: base}
"""


def test_names_plan_and_tests(tmp_path: Path) -> None:
    resolved = resolve(tmp_path, SPEC)
    blind = ["base+blind_refuser", "base+swapped_picture", "other+swapped_picture", "other+removed_picture"]
    assert resolved.blind_models == blind and set(blind) < set(resolved.scored_models)
    plan = make_plan(resolved, tmp_path)
    variants = {s.params["model"]["label"]: [v["variant"] for v in s.params["variants"]] for s in plan.writers("generations")}
    assert variants == {"base": ["clean", "swapped_picture"], "other": ["clean", "swapped_picture", "removed_picture"]}
    assert plan.stage("abstain").params["blind_refuser"] == ["base"] and set(plan.stage("abstain").inputs["generations"]) == {"base"}
    assert set(derived_models(plan.stages)) == {*blind, "base+careful"}
    assert plan.stage("score").params["compare"]["pairs"] == [
        ["base+blind_refuser", "other"], ["base+blind_refuser", "base+careful"],
        ["other+swapped_picture", "other"], ["other+removed_picture", "other"],
    ]  # fmt: skip


def test_a_refuser_needs_no_abstention_and_without_one_nothing_changes(tmp_path: Path) -> None:
    plain = SPEC.replace("abstentions:\n  careful: {risk_control: {}, of: [base], fit: half}\n", "")
    assert make_plan(resolve(tmp_path, plain), tmp_path).stage("abstain").params["abstentions"] == []
    without = make_plan(resolve(tmp_path, plain.replace("blind:", "# ")), tmp_path)
    assert "abstain" not in {s.name for s in without.stages}
    assert all(len(s.params["variants"]) == 1 for s in without.writers("generations"))
    assert without.stage("score").params["compare"]["pairs"] == []


def test_blind_baselines_are_tested_where_the_spec_compares_nothing_else(tmp_path: Path) -> None:
    plan = make_plan(resolve(tmp_path, SPEC.replace("compare: {baseline: base}\n", "")), tmp_path)
    score = plan.stage("score")
    assert ["base+blind_refuser", "base"] in score.params["compare"]["pairs"] and "comparisons" in score.outputs
    assert plan.stage("report").params["made"]["compare"] == {"correction": "max_t", "family": "study"}


def test_rows_that_do_not_look_can_be_compared(tmp_path: Path) -> None:
    pairs = "compare: {baseline: base+blind_refuser, pairs: [[other, base+swapped_picture], [base+blind_refuser, other]]}"
    resolved = resolve(tmp_path, SPEC.replace("compare: {baseline: base}", pairs))
    assert resolved.spec.compare.baseline == "base+blind_refuser"
    made = make_plan(resolved, tmp_path).stage("score").params["compare"]["pairs"]
    assert made[:2] == [["other", "base+swapped_picture"], ["base+blind_refuser", "other"]], "as the spec has them, and none of them twice"
    assert made[2:] == [
        ["base+blind_refuser", "base"], ["base+blind_refuser", "base+careful"],
        ["base+swapped_picture", "base"], ["other+swapped_picture", "other"], ["other+removed_picture", "other"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("refuser: [base]", "refuser: [bsae]", "expected a model of this spec, got 'bsae' (did you mean 'base'?)"),
        ("judges: [rules]\n", "", "blind baselines are compared by judged answers, and this spec has no judges"),
        ("careful:", "blind_refuser:", "an abstention is called 'blind_refuser', the name that `blind: refuser` adds to its models"),
        ("refuser: [base]", "refusers: [base]", "refusers"),
        (
            "{refuser: [base], swapped: [base, other], removed: [other]}",
            "{}",
            "expected models under at least one of refuser, picture_refuser, swapped, removed",
        ),
        ("refuser: [base]", "refuser: []", "blind.refuser: expected at least 1 entry, got a list []"),
        ("refuser: [base]", "refuser: [base, base]", "blind.refuser[1]: 'base' is named twice (name each model once)"),
        ("{baseline: base}", "{baseline: other+blind_refuser}", "expected a model of this spec, got 'other+blind_refuser'"),
    ],
)
def test_mistakes(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        resolve(tmp_path, SPEC.replace(old, new))
    assert message in str(caught.value)
