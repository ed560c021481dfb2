"""The spec's `abstentions:` and `compare:` sections: what they resolve to, what is planned, what is refused."""

from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
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
  thresholded: {thresholding: {criterion: [lave_idk_accuracy, confidence_weighted_accuracy]}, of: [base], fit: half}
  controlled: {risk_control: {alpha: 0.1}}
  paper: {thresholding: , fit: test, per: category}
metrics: [accuracy, confidence_weighted_accuracy]
compare: {baseline: base, pairs: [[base+controlled, other]]}
"""


def test_every_method_with_its_models_and_defaults(tmp_path: Path) -> None:
    found = {a.label: a for a in resolve(tmp_path, SPEC).abstentions}
    assert list(found) == [
        "controlled",
        "paper",
        "thresholded@criterion=confidence_weighted_accuracy",
        "thresholded@criterion=lave_idk_accuracy",
    ]
    assert found["controlled"].of == ("base", "other")
    assert found["thresholded@criterion=lave_idk_accuracy"].of == ("base",)
    assert found["controlled"].as_json() == {
        "label": "controlled",
        "plugin": "risk_control",
        "args": {"alpha": 0.1, "unit": "group"},
        "of": ["base", "other"],
        "fit": "val",
        "per": "all",
        "confidence": "kept",
        "seed": 42,
    }


def test_one_fitted_on_the_test_split_is_called_so_everywhere(tmp_path: Path) -> None:
    names = resolve(tmp_path, SPEC).scored_models
    assert "base+paper (optimistic)" in names
    assert "base+controlled" in names and "other+controlled" in names


def test_validation_rows_are_asked_only_of_models_that_are_fitted_on_them(tmp_path: Path) -> None:
    text = SPEC.replace("controlled: {risk_control: {alpha: 0.1}}", "controlled: {risk_control: {alpha: 0.1}, of: [other]}")
    plan = make_plan(resolve(tmp_path, text.replace("base+controlled", "other+controlled")))
    assert plan.stage("infer-other-scenes").params["also"] == ["val"]
    assert "also" not in plan.stage("infer-base-scenes").params


def test_a_stage_between_judge_and_score(tmp_path: Path) -> None:
    plan = make_plan(resolve(tmp_path, SPEC))
    names = [s.name for s in plan.stages]
    assert names.index("judge") < names.index("abstain") < names.index("score") < names.index("report")
    abstain, score = plan.stage("abstain"), plan.stage("score")
    assert set(abstain.inputs["generations"]) == {"base", "other"}
    assert {
        "runners/plugins/abstentions/risk_control.py",
        "runners/plugins/abstentions/thresholding.py",
        "results/t/judgements.parquet",
    } <= set(abstain.deps)
    assert score.inputs["abstentions"] == abstain.outputs["abstentions"]
    assert "abstention_rules" not in score.inputs and "abstention_rules" in plan.stage("report").inputs
    assert abstain.tracked["params"]["abstentions"]["controlled"]["args"] == {"alpha": 0.1, "unit": "group"}


def test_what_is_compared_and_studied_is_written(tmp_path: Path) -> None:
    score = make_plan(resolve(tmp_path, SPEC)).stage("score")
    assert score.outputs["comparisons"] == "results/t/comparisons.parquet"
    assert score.params["compare"] == {
        "baseline": "base",
        "pairs": [["base+controlled", "other"]],
        "margin": None,
        "correction": "max_t",
        "family": "study",
    }
    assert {"metric_study", "correlations"} <= set(score.outputs) and "metric_study" in score.kept_in_git
    plain = SPEC[: SPEC.index("compare:")].replace(", confidence_weighted_accuracy]\n", "]\n")
    score = make_plan(resolve(tmp_path, plain)).stage("score")
    assert "compare" not in score.params
    assert not {"comparisons", "correlations", "metric_study"} & set(score.outputs)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("of: [base]", "of: [bsae]", "t.yaml:10:100: abstentions.thresholded.of[0]: expected a model of this spec, got 'bsae'"),
        ("risk_control:", "risk_contrl:", "t.yaml:11:16: abstentions.controlled.risk_contrl: no abstentions plugin named 'risk_contrl'"),
        ("{risk_control: {alpha: 0.1}}", "{of: [base]}", "t.yaml:11:15: abstentions.controlled: expected one plugin of abstentions"),
        ("fit: half", "fit: train", "t.yaml:10:112: abstentions.thresholded.fit: expected"),
        ("alpha: 0.1", "alpha: 1.0", "t.yaml:11:38: abstentions.controlled.risk_control.alpha: expected a number < 1.0, got 1.0"),
        ("judges: [rules]\n", "", "t.yaml:9:3: abstentions.thresholded: an abstention rule is chosen on judged answers"),
        ("baseline: base", "baseline: bsae", "t.yaml:14:21: compare.baseline: expected a model of this spec, got 'bsae'"),
        ("base+controlled", "base+control", "t.yaml:14:36: compare.pairs[0][0]: expected a model of this spec, got 'base+control'"),
        (", other]]", ", base+controlled]]", "t.yaml:14:35: compare.pairs[0]: expected two different models"),
        (", other]]", "]]", "t.yaml:14:35: compare.pairs[0]: expected"),
    ],
)
def test_each_mistake_has_a_place(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in SPEC
    with pytest.raises(SpecError) as caught:
        resolve(tmp_path, SPEC.replace(old, new))
    found = [str(p) for p in caught.value.problems]
    assert any(f.startswith(expected) for f in found), "\n".join(found)


def test_editors_know_the_section() -> None:
    import jsonschema
    import yaml

    from qualm.compiler.spec.json_schema import schema

    validator = jsonschema.Draft202012Validator(schema())
    good = yaml.safe_load(SPEC)
    assert not list(validator.iter_errors(good))
    for bad in ({"x": {"thresholding": {"criterion": "nope"}}}, {"x": {"nope": {}}}, {"x": {"of": ["base"]}}, {"x": {"fit": "half"}}):
        assert list(validator.iter_errors(good | {"abstentions": bad}))
