"""Perturbed samples that a stage of its own writes down."""

from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.spec.errors import SpecError
from tests.compiler.plan.planned import SPEC, make, resolved


def test_a_perturbation_that_is_materialised_is_a_stage_of_its_own(tmp_path: Path) -> None:
    plan = make(tmp_path, SPEC.replace("{radius: [1, 2]}", "{radius: [1, 2], materialize: true}"))
    made = [s for s in plan.stages if s.kind == "perturb"]
    assert [s.name for s in made] == ["perturb-blur-radius-1", "perturb-blur-radius-2"]
    assert made[0].params == {
        "variant": "blur@radius=1",
        "plugin": "blur",
        "modality": "image",
        "args": {"radius": 1.0, "relative": False, "fast": False},
    }
    places = [f"results/t/perturbed/blur-radius-1/{name}" for name in ("scenes", "scenes_mc")]
    assert made[0].outs == tuple(sorted([*places, *(f"{place}.md" for place in places)]))
    infer = plan.stage("infer-base-scenes")
    assert {"results/t/perturbed/blur-radius-1/scenes", "results/t/perturbed/blur-radius-2/scenes"} <= set(infer.deps)
    assert not [d for d in infer.deps if "scenes_mc" in d]
    assert [v.get("made") for v in infer.params["variants"]] == [None, True, True]
    order = [s.name for s in plan.stages]
    assert order.index("perturb-blur-radius-2") < order.index("infer-base-scenes")


def test_where_pixels_are_made_is_no_part_of_a_variants_name(tmp_path: Path) -> None:
    text = SPEC.replace("[1, 2]}", "2, materialize: FLAG}")
    plain, made = (resolved(tmp_path, text.replace("FLAG", flag)) for flag in ("false", "true"))
    assert [(p.label, p.args) for p in plain.perturbations] == [(p.label, p.args) for p in made.perturbations]
    assert [s.as_json() for s in make_plan(plain).stages] == [s.as_json() for s in make(tmp_path, SPEC.replace("[1, 2]", "2")).stages]
    with pytest.raises(SpecError, match=r"materialize: expected true or false, got 7"):
        resolved(tmp_path, SPEC.replace("{radius: [1, 2]}", "{radius: 2, materialize: 7}"))


def test_classes_are_balanced_by_the_stage_that_is_the_last_to_leave_out(tmp_path: Path) -> None:
    text = """\
qualm: 1
name: t
datasets:
  a: {card: vizwiz_ans_difference, where: clean or image, uncertain: image, splits: [val], balance: {take: 150}}
  b: {card: vizwiz_ans_difference, where: clean or image, uncertain: image, splits: [val], balance: {take: 150}, curated: reviews}
models: {base: {hf_vlm: {artifact: x}}}
"""
    plan = make(tmp_path, text)
    how = {"take": 150, "by": "uncertain", "shortfall": "error", "seed": 7}
    assert plan.stage("data-a").params["balance"] == plan.stage("curate-b").params["balance"] == how
    assert plan.stage("data-a").params["splits"] == {"a": ["val"]} and "balance" not in plan.stage("data-b").params
