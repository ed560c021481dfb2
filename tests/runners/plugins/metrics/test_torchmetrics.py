"""Every class by its name: against torchmetrics and scikit-learn, in resamples, where it is undefined, and in specs."""

from typing import get_args

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from torchmetrics import classification

from qualm.registry.plugins import registry
from qualm.registry.plugins.declarations import for_arguments
from qualm.runners.plugins.metrics.torchmetrics import torchmetrics, why_undefined
from qualm.runners.reporting.text import read_label
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.measuring.measured import Slice
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.paired_tests import compare
from tests.compiler.spec.resolving import change, problems, resolve
from tests.simulation.cells import cell_of
from tests.simulation.worlds import World

N, K = 120, 4
RNG = np.random.default_rng(5)
CONFIDENCE = RNG.random(N).round(2)
CORRECT = (RNG.random(N) < CONFIDENCE) * 1.0
PROBABILITIES = RNG.dirichlet(np.ones(K), N)
RIGHT = np.where(RNG.random(N) < 0.5, PROBABILITIES.argmax(axis=1), RNG.integers(0, K, N)) * 1.0
NAMES = get_args(registry.get("metrics", "torchmetrics").parameters[0].annotation)
BINARY = [name for name in NAMES if name.startswith("Binary")]
MULTICLASS = [name for name in NAMES if name.startswith("Multiclass")]


def value(metric, score=None, outcome=None, weights=None, **args):
    binary = metric.startswith("Binary")
    score = (CONFIDENCE if binary else PROBABILITIES) if score is None else np.array(score, float)
    outcome = (CORRECT if binary else RIGHT) if outcome is None else np.array(outcome, float)
    weights = np.ones((1, len(score))) if weights is None else weights
    return torchmetrics(score, outcome, np.zeros(len(score)), weights, metric=metric, **args)


CALLED, LIKELIEST = CONFIDENCE > 0.5, PROBABILITIES.argmax(axis=1)
BY_SKLEARN = {
    "BinaryAUROC": sk.roc_auc_score(CORRECT, CONFIDENCE),
    "BinaryAveragePrecision": sk.average_precision_score(CORRECT, CONFIDENCE),
    "BinaryAccuracy": sk.accuracy_score(CORRECT, CALLED),
    "BinaryCohenKappa": sk.cohen_kappa_score(CORRECT, CALLED),
    "BinaryF1Score": sk.f1_score(CORRECT, CALLED),
    "BinaryHammingDistance": sk.hamming_loss(CORRECT, CALLED),
    "BinaryJaccardIndex": sk.jaccard_score(CORRECT, CALLED),
    "BinaryMatthewsCorrCoef": sk.matthews_corrcoef(CORRECT, CALLED),
    "BinaryPrecision": sk.precision_score(CORRECT, CALLED),
    "BinaryRecall": sk.recall_score(CORRECT, CALLED),
    "BinarySpecificity": sk.recall_score(CORRECT, CALLED, pos_label=0),
    "BinaryNegativePredictiveValue": sk.precision_score(CORRECT, CALLED, pos_label=0),
    "MulticlassAUROC": sk.roc_auc_score(RIGHT, PROBABILITIES, multi_class="ovr"),
    "MulticlassAveragePrecision": sk.average_precision_score(np.eye(K)[RIGHT.astype(int)], PROBABILITIES),
    "MulticlassAccuracy": sk.balanced_accuracy_score(RIGHT, LIKELIEST),
    "MulticlassCohenKappa": sk.cohen_kappa_score(RIGHT, LIKELIEST),
    "MulticlassF1Score": sk.f1_score(RIGHT, LIKELIEST, average="macro"),
    "MulticlassJaccardIndex": sk.jaccard_score(RIGHT, LIKELIEST, average="macro"),
    "MulticlassMatthewsCorrCoef": sk.matthews_corrcoef(RIGHT, LIKELIEST),
    "MulticlassPrecision": sk.precision_score(RIGHT, LIKELIEST, average="macro"),
    "MulticlassRecall": sk.recall_score(RIGHT, LIKELIEST, average="macro"),
}


@pytest.mark.parametrize("name", BY_SKLEARN)
def test_against_scikit_learn(name):
    assert value(name)[0] == pytest.approx(BY_SKLEARN[name], abs=1e-6)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        *((name, {}) for name in NAMES if name not in BY_SKLEARN and not name.endswith("FBetaScore")),
        ("BinaryFBetaScore", {"beta": 0.5, "threshold": 0.3}),
        ("MulticlassFBetaScore", {"beta": 2.0, "average": "weighted"}),
        ("BinaryCalibrationError", {"n_bins": 7, "norm": "max"}),
        ("BinaryAUROC", {"max_fpr": 0.3}),
        ("BinaryHingeLoss", {"squared": True}),
        ("MulticlassAccuracy", {"average": "micro", "top_k": 2}),
    ],
)
def test_a_resample_has_the_value_of_torchmetrics_on_its_rows(name, args):
    drawn = np.random.default_rng(1).integers(0, N, N)
    weights = np.stack([np.ones(N), np.bincount(drawn, minlength=N)])
    found = value(name, weights=weights, **args)
    options = {} if name in BINARY else {"num_classes": K}
    score, target = (CONFIDENCE, CORRECT) if name in BINARY else (PROBABILITIES, RIGHT)
    for number, rows in zip(found, (np.arange(N), drawn), strict=True):
        module = getattr(classification, name)(**options, **args)
        assert number == pytest.approx(float(module(torch.tensor(score[rows]), torch.tensor(target[rows].astype(int)))), abs=1e-6)


def test_wrong_answers_as_the_positive_class():
    by_hand = sk.average_precision_score(1 - CORRECT, 1 - CONFIDENCE)
    assert value("BinaryAveragePrecision", positive="wrong")[0] == pytest.approx(by_hand, abs=1e-6)


def test_a_confidence_beyond_1_by_rounding_is_no_logit():
    assert value("BinaryHingeLoss", [1 + 1e-12, 0.0], [1, 0])[0] == pytest.approx(0.5)


SURE, UNSURE = [0.9, 0.8], [0.1, 0.2]


@pytest.mark.parametrize(
    ("name", "score", "outcome", "reason"),
    [
        ("BinaryAUROC", SURE, [1, 1], "every answer is right"),
        ("BinaryEER", SURE, [0, 0], "no answer is right"),
        ("BinaryLogAUC", SURE, [1, 1], "every answer is right"),
        ("BinaryAveragePrecision", SURE, [0, 0], "no answer is right"),
        ("BinaryRecall", SURE, [0, 0], "no answer is right"),
        ("BinarySpecificity", SURE, [1, 1], "every answer is right"),
        ("BinaryPrecision", UNSURE, [1, 0], "no answer is called right"),
        ("BinaryNegativePredictiveValue", SURE, [1, 0], "every answer is called right"),
        ("BinaryF1Score", UNSURE, [0, 0], "no answer is right or called so"),
        ("BinaryJaccardIndex", UNSURE, [0, 0], "no answer is right or called so"),
        ("BinaryMatthewsCorrCoef", SURE, [1, 0], "every answer is called right"),
        ("BinaryCohenKappa", SURE, [1, 1], "every answer is right"),
        ("MulticlassAUROC", [[0.7, 0.3, 0], [0.2, 0.8, 0]], [0, 1], "an option is never right"),
        ("MulticlassAveragePrecision", [[0.7, 0.3, 0], [0.2, 0.8, 0]], [0, 1], "an option is never right"),
        ("MulticlassMatthewsCorrCoef", [[0.7, 0.3], [0.8, 0.2]], [0, 1], "the same option is likeliest in all questions"),
        ("MulticlassCohenKappa", [[0.7, 0.3], [0.2, 0.8]], [1, 1], "the same option is right in all questions"),
    ],
)
def test_what_is_undefined_is_no_0_and_says_why(name, score, outcome, reason):
    assert np.isnan(value(name, score, outcome))
    assert why_undefined(np.array(score), np.array(outcome, float), np.zeros(len(score)), metric=name) == reason


@pytest.mark.parametrize(("name", "outcome", "expected"), [("BinaryF1Score", [1, 1], 0.0), ("BinaryPrecision", [0, 0], np.nan)])
def test_a_value_of_0_stays_one(name, outcome, expected):
    np.testing.assert_equal(value(name, UNSURE, outcome)[0], expected)


def test_every_class_says_its_direction_and_its_interval():
    for name in NAMES:
        declares = for_arguments(registry.get("metrics", "torchmetrics"), {"metric": name}).declares
        losses = ("CalibrationError", "HammingDistance", "HingeLoss", "EER")
        assert declares["higher_is_better"] is not name.endswith(losses), name
        assert (declares["interval"] == "none") == name.endswith("CalibrationError") == ("why_no_interval" in declares), name
        declared = getattr(classification, name).higher_is_better
        assert declared is None or declared == declares["higher_is_better"], name


def test_a_report_shows_the_direction_of_each_class():
    arrows = {name: read_label(f"torchmetrics@metric={name},beta=0.5[ours]", ["ours"]).arrow for name in NAMES}
    assert {name for name, arrow in arrows.items() if arrow == "↓"} == {
        "BinaryCalibrationError", "BinaryEER", "BinaryHammingDistance", "BinaryHingeLoss", "MulticlassCalibrationError",
        "MulticlassHammingDistance", "MulticlassHingeLoss",
    }  # fmt: skip
    assert set(arrows.values()) == {"↑", "↓"}


def test_models_are_compared_by_what_is_unbiased():
    names = ["BinaryAUROC", "BinaryAccuracy", "BinaryCalibrationError"]
    chosen = read_metrics([{"label": name, "plugin": "torchmetrics", "args": {"metric": name}} for name in names])
    auroc, accuracy = read_metrics([{"label": name, "plugin": name, "args": {}} for name in ("auroc", "accuracy")])
    rng, group, cells = np.random.default_rng(0), np.arange(N), []
    for sharpness in (3.0, 0.3):
        correct = (rng.random(N) < 0.5) * 1.0
        confidence = 1 / (1 + np.exp(-sharpness * (correct - 0.5) - rng.normal(size=N)))
        cells.append(cell_of(World(group, {"correct": correct, "confidence": confidence, "uncertainty": -confidence})))
    part = Slice("all", np.arange(N), Bootstrap(group, 60, 0, "d", "all"))
    area, right, calibration, own_area, _ = compare([*chosen, auroc, accuracy], *cells, part, 0.95)
    assert (area.low, area.high, area.p) == pytest.approx((own_area.low, own_area.high, own_area.p), abs=1e-5) and area.p < 0.05
    assert not np.isnan(right.p) and right.higher_is_better is True
    assert np.isnan(calibration.p) and calibration.why.startswith("a biased estimate") and calibration.higher_is_better is False


def test_a_spec_names_a_class_and_its_arguments(tmp_path):
    text = change("  - auroc\n", "  - torchmetrics: {metric: BinaryFBetaScore, beta: 0.5}\n  - torchmetrics: {metric: MulticlassRecall}\n")
    labels = {ref.label: ref for ref in resolve(tmp_path, text).metrics}
    assert labels["torchmetrics@metric=BinaryFBetaScore,beta=0.5"].reads[:2] == ("confidence", "correct")
    assert labels["torchmetrics@metric=MulticlassRecall"].reads[:2] == ("option_probabilities", "right_option")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("{metric: BinaryAverageprecision}", "expected one of BinaryAUROC, BinaryAccuracy"),
        ("{}", "torchmetrics needs the parameter 'metric'"),
        ("{metric: BinaryAUROC, n_bins: 5}", "`n_bins` has no meaning with `metric: BinaryAUROC`; it has with *CalibrationError"),
        ("{metric: MulticlassAUROC, threshold: 0.3}", "`threshold` has no meaning with `metric: MulticlassAUROC`"),
        ("{metric: MulticlassAUROC, average: micro}", "`average: micro` has no meaning with `metric: MulticlassAUROC`"),
        ("{metric: BinaryAUROC, max_fpr: 2}", "max_fpr"),
        ("{metric: BinaryAUROC, thresholds: 5}", "torchmetrics has no parameter 'thresholds'"),
        ("{metric: BinaryROC}", "metric"),
    ],
)
def test_what_a_class_does_not_take_is_found_before_anything_runs(tmp_path, given, says):
    (problem,) = problems(tmp_path, change("  - auroc\n", f"  - torchmetrics: {given}\n"))
    assert problem.startswith("t.yaml:16:") and says in problem
