"""What is asked of each dataset: its own perturbations, and no signal that nobody reads of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qualm.compiler.plan import layout
from qualm.compiler.plan.demands import group_asked_alike
from qualm.compiler.plan.plan import Plan
from tests.compiler.plan.planned import make, resolved

SPEC = """\
qualm: 1
name: t
datasets:
  a: {card: synthetic_scenes, test: 10}
  b: {card: synthetic_scenes, test: 10, perturb: false}
  c: {card: synthetic_scenes, test: 10, perturb: [typos, blur@radius=2]}
perturbations: [blur: {radius: [1, 2]}, typos: {p: 0.1, materialize: true}]
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
  other: {hf_vlm: {artifact: scene-vlm-other}}
judges: [rules]
estimators: [perplexity, lexical_similarity]
metrics: [uncertainty_reflection_rate]
"""
ALL = ["clean", "blur@radius=1", "blur@radius=2", "typos@p=0.1"]
ASKING = """\
qualm: 1
name: t
datasets:
  focus: {card: vq_focusambiguity, splits: [train, val]}
  outright: {card: vq_focusambiguity, splits: [train, val], ask_answerable: ambiguity_zero_shot, judges: [final_answer]}
models: {base: {hf_vlm: {artifact: scene-vlm-base}}}
judges: [rules, final_answer]
estimators: [perplexity, lexical_similarity]
metrics: [METRICS]
"""


def variants(plan: Plan, stage: str) -> list[str]:
    return [v["variant"] for v in plan.stage(stage).params["variants"]]


def test_each_data_set_is_asked_under_its_own_perturbations(tmp_path: Path) -> None:
    plan = make(tmp_path, SPEC)
    assert variants(plan, "infer-base-a") == ALL
    assert variants(plan, "infer-base-b") == ["clean"]
    assert variants(plan, "infer-base-c") == ["clean", "blur@radius=2", "typos@p=0.1"]
    written = plan.stage("perturb-typos-p-0.1")
    assert written.inputs["datasets"].keys() == written.inputs["cards"].keys() == written.outputs["perturbed"].keys() == {"a", "c"}
    assert plan.stage("infer-base-c").inputs["perturbed"] == {"typos@p=0.1": {"c": written.outputs["perturbed"]["c"]}}
    assert "perturbed" not in plan.stage("infer-base-b").inputs
    asked = [json.dumps(plan.stage(f"infer-base-{name}").params) for name in "abc"]
    assert ["blur" in params for params in asked] == [True, False, True], "what does not perturb it cannot change its answers"


def test_a_data_set_that_stays_clean_is_not_sampled_for_metrics_of_change(tmp_path: Path) -> None:
    plan = make(tmp_path, SPEC)
    assert [("draws" in plan.stage(f"infer-base-{d}").params) for d in "abc"] == [True, False, True]
    assert all(files.keys() == {"a", "c"} for files in plan.stage("estimate").inputs["generations"].values())
    both = make(tmp_path, SPEC.replace("[uncertainty_reflection_rate]", "[uncertainty_reflection_rate, auroc]"))
    assert "draws" in both.stage("infer-base-b").params and "b" in both.stage("estimate").inputs["generations"]["base"]


@pytest.mark.parametrize(
    ("metrics", "sampled"),
    [("best_f1, auroc_uncertain, f1_uncertain", False), ("best_f1, auroc", True), ("f1_uncertain", True), ("accuracy", True)],
)
def test_answers_to_the_question_whether_a_question_is_uncertain(tmp_path: Path, metrics: str, sampled: bool) -> None:
    """They are not sampled for metrics that tell uncertain questions from clear ones; where no metric reads uncertainties, the table is
    what was asked for."""
    plan = make(tmp_path, ASKING.replace("METRICS", metrics))
    outright: dict[str, Any] = plan.stage("infer-base-outright").params
    assert ("draws" in outright, "draws" in outright["needs"]) == (sampled, sampled)
    assert plan.stage("infer-base-focus").params["draws"] == 10 and "text" in outright["needs"]
    assert ("outright" in plan.stage("estimate").inputs["generations"]["base"]) is sampled


def test_one_stage_for_all_that_are_asked_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MAX_STAGES", 3)
    plan = make(tmp_path, SPEC)
    assert [s.name for s in sorted(plan.writers("generations"), key=lambda s: s.name) if s.params["model"]["label"] == "base"] == [
        "infer-base-a",
        "infer-base-b",
        "infer-base-c",
    ]
    assert not plan.stage("infer-base-a").folders, "stages that share a folder name their files"
    alike = make(tmp_path, SPEC.replace(", perturb: false", "").replace(", perturb: [typos, blur@radius=2]", ""))
    assert [s.name for s in alike.writers("generations")] == ["infer-base", "infer-other"]
    assert alike.stage("infer-base").outs == ("results/t/generations/base",)
    spec = resolved(tmp_path, SPEC.replace(", perturb: [typos, blur@radius=2]", ""))
    assert [[d.label for d in group] for group in group_asked_alike(spec, spec.models[0])] == [["a", "c"], ["b"]]


def test_layers_of_all_estimators_are_asked_for_together(tmp_path: Path) -> None:
    text = SPEC.replace("[perplexity, lexical_similarity]", "[perplexity, eigen_score: {layer: [middle, -1]}, umpire]")
    plan = make(tmp_path, text.replace("[uncertainty_reflection_rate]", "[auroc]"))
    stage, estimate = plan.stage("infer-base-a"), plan.stage("estimate")
    inside = [need for need in stage.params["needs"] if "hidden_states" in need]
    assert inside == ["draw_hidden_states/-1/answer_last", "draw_hidden_states/0.5/answer_last"] and "draws" in stage.params["needs"]
    assert stage.outputs["internals"] == {"a": "results/t/internals/base/a.parquet"}
    assert estimate.inputs["internals"]["base"].keys() == {"a", "b", "c"} and estimate.params["draws"]
    plain = make(tmp_path, SPEC)
    assert "internals" not in plain.stage("infer-base-a").outputs and "internals" not in plain.stage("estimate").inputs
