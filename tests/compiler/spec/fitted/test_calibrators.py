"""The `calibrators:` section, spelled out, what is planned of it, and what is refused."""

from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from tests.compiler.spec.resolving import GOOD, problems, resolve

SPEC = GOOD + "calibrators:\n  held_out: {methods: [temperature, platt: {prior_correction: [true, false]}], of: [confidence, perplexity]}\n"


def test_every_method_with_its_sweep_and_of_what(tmp_path: Path) -> None:
    (use,) = resolve(tmp_path, SPEC).calibrators
    assert [m.label for m in use.methods] == ["platt@prior_correction=false", "platt@prior_correction=true", "temperature"]
    assert use.of == ("", "perplexity")
    assert [m.plugin.name for m in use.methods_of("perplexity")] == ["platt", "platt"]
    assert use.as_json()["calibration"] == {"fraction": 0.5, "seed": 42} and use.entry.refits == 200


def test_the_score_stage_is_told_and_writes_two_tables_more(tmp_path: Path) -> None:
    stage = make_plan(resolve(tmp_path, SPEC)).stage("score")
    assert stage.params["calibrators"][0]["label"] == "held_out"
    assert {"recalibrated", "calibrator_comparisons"} <= set(stage.outputs)
    plain = make_plan(resolve(tmp_path, GOOD)).stage("score")
    assert "calibrators" not in plain.params and "recalibrated" not in plain.outputs


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("methods: [platt], calibration: {fit: test}", "expected half, or val: a calibrator is never fitted on rows that are scored"),
        ("methods: [platt], calibration: {split: rows}", "unknown key 'split'"),
        ("methods: [platt], calibration: {fraction: 1.0}", "expected a number < 1"),
        ("methods: [plat]", "no calibrators plugin named 'plat'; did you mean 'platt'?"),
        ("methods: [platt], of: [perplexty]", "expected `confidence` or an estimator of this spec, got 'perplexty'"),
        ("methods: [temperature], of: [perplexity]", "temperature recalibrates probabilities, which values of estimators are not"),
        ("methods: []", "methods"),
        ("methods: [platt], of: [confidence, confidence]", "of: expected each of them once, and confidence is there twice"),
        ("methods: [platt], calibration: {fit: val, fraction: 0.5}", "expected no `fraction` beside `fit: val`, which takes all of that"),
        ("methods: [platt], calibration: {seed: 3, fit: val}", "expected no `seed` beside `fit: val`"),
    ],
)
def test_mistakes(tmp_path: Path, part: str, message: str) -> None:
    (problem,) = problems(tmp_path, GOOD + f"calibrators:\n  held_out: {{{part}}}\n")
    assert message in problem


def test_without_a_metric_of_confidence_nothing_would_show_it(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, SPEC.replace("  - ece: {bins: 15}\n", "  - ece: {rows: all}\n"))
    assert "no metric of this spec reads a confidence" in problem


ON_VAL = GOOD + "calibrators:\n  held_out: {methods: [platt], calibration: {fit: val}}\n"


def test_on_the_split_val_models_are_asked_its_questions_too(tmp_path: Path) -> None:
    (use,) = resolve(tmp_path, ON_VAL).calibrators
    assert use.on_validation and use.as_json()["calibration"] == {"fit": "val"}
    plan = make_plan(resolve(tmp_path, ON_VAL))
    assert all(stage.params["also"] == ["val"] for stage in plan.stages if stage.kind == "infer")
    assert not any("also" in stage.params for stage in make_plan(resolve(tmp_path, SPEC)).stages if stage.kind == "infer")


def test_the_split_val_may_not_be_scored_then(tmp_path: Path) -> None:
    scored = ON_VAL.replace("datasets:\n", "datasets:\n  more: {card: synthetic_scenes, test: 6, splits: [val, test]}\n", 1)
    (problem,) = problems(tmp_path, scored)
    assert (
        "calibrators.held_out.calibration.fit: `val` is scored of more, and a calibrator is never fitted on rows that are scored" in problem
    )
    assert "use `fit: half`, or take `val` out of `splits:`" in problem


COMBINED = (
    GOOD + "calibrators:\n  both: {methods: [platt, logistic_regression: {l2: [1, 10]}], of: [confidence, [confidence, perplexity]]}\n"
)


def test_a_list_within_the_list_is_combined(tmp_path: Path) -> None:
    (use,) = resolve(tmp_path, COMBINED).calibrators
    assert use.of == ("", ("", "perplexity")) and use.as_json()["of"] == ["", ["", "perplexity"]]
    assert [m.label for m in use.methods_of(use.of[1])] == ["logistic_regression@l2=1", "logistic_regression@l2=10"]


@pytest.mark.parametrize(
    ("of", "methods", "message"),
    [
        ("[confidence, perplexty]", "logistic_regression", "expected `confidence` or an estimator of this spec, got 'perplexty'"),
        ("[confidence, perplexity]", "platt", "platt cannot combine confidence and perplexity (add `logistic_regression` to `methods`)"),
        ("[perplexity, perplexity]", "logistic_regression", "expected each of them once, and perplexity is there twice"),
        ("[perplexity]", "logistic_regression", "of: expected two or more in a list that is combined, got [perplexity]"),
    ],
)
def test_mistakes_of_combinations(tmp_path: Path, of: str, methods: str, message: str) -> None:
    (problem,) = problems(tmp_path, GOOD + f"calibrators:\n  both: {{methods: [{methods}], of: [{of}]}}\n")
    assert message in problem


def test_settings_stand_in_the_order_of_their_names(tmp_path: Path) -> None:
    both = GOOD + "calibrators:\n  late: {methods: [platt]}\n  early: {methods: [platt], of: [perplexity, confidence], refits: 90}\n"
    early, late = resolve(tmp_path, both).calibrators
    assert (early.label, early.of, early.entry.refits) == ("early", ("perplexity", ""), 90) and (late.label, late.of) == ("late", ("",))
