"""Classification metrics of torchmetrics, by the names of their classes. Detlefsen et al., 2022 (Journal of Open Source Software)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import NDArray

from qualm.registry.plugins.declarations import by_argument
from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, chosen_rows

if TYPE_CHECKING:
    import torch

CITES = ["detlefsen2022torchmetrics"]
EXTRA = "models"
NEEDS = {
    "score": {"metric": {"Binary*": "confidence", "Multiclass*": "option_probabilities"}},
    "outcome": {"metric": {"Binary*": "correct", "Multiclass*": "right_option"}},
}
META = MetricMeta(
    higher_is_better={
        "metric": {"*CalibrationError": False, "*HammingDistance": False, "*HingeLoss": False, "BinaryEER": False, "*": True}
    },
    interval={"metric": {"*CalibrationError": "none", "*HingeLoss": "t", "*MatthewsCorrCoef": "t", "*CohenKappa": "t", "*": "proportion"}},
    why_no_interval={
        "metric": {
            "*CalibrationError": "a biased estimate, by an amount that depends on the model; `ece` and `ece_debiased` have an interval"
        }
    },
    contrasts={
        "metric": {
            "BinaryAccuracy": "none",
            "BinaryHammingDistance": "none",
            "BinaryHingeLoss": "none",
            "BinaryCalibrationError": "none",
            "Binary*": "classes",
            "MulticlassCalibrationError": "none",
            "MulticlassHingeLoss": "none",
            "Multiclass*": "types",
        }
    },
    only_with={
        "positive": {"metric": ["Binary*"]},
        "right_from": {"metric": ["Binary*"]},
        "threshold": {
            "metric": [
                "BinaryAccuracy",
                "BinaryCohenKappa",
                "BinaryF1Score",
                "BinaryFBetaScore",
                "BinaryHammingDistance",
                "BinaryJaccardIndex",
                "BinaryMatthewsCorrCoef",
                "BinaryNegativePredictiveValue",
                "BinaryPrecision",
                "BinaryRecall",
                "BinarySpecificity",
            ]
        },
        "beta": {"metric": ["*FBetaScore"]},
        "n_bins": {"metric": ["*CalibrationError"]},
        "norm": {"metric": ["*CalibrationError"]},
        "max_fpr": {"metric": ["BinaryAUROC"]},
        "squared": {"metric": ["*HingeLoss"]},
        "average": {
            "metric": [
                "MulticlassAUROC",
                "MulticlassAccuracy",
                "MulticlassAveragePrecision",
                "MulticlassF1Score",
                "MulticlassFBetaScore",
                "MulticlassHammingDistance",
                "MulticlassJaccardIndex",
                "MulticlassNegativePredictiveValue",
                "MulticlassPrecision",
                "MulticlassRecall",
                "MulticlassSpecificity",
            ]
        },
        "average=micro": {
            "metric": [
                "MulticlassAccuracy",
                "MulticlassF1Score",
                "MulticlassFBetaScore",
                "MulticlassHammingDistance",
                "MulticlassJaccardIndex",
                "MulticlassNegativePredictiveValue",
                "MulticlassPrecision",
                "MulticlassRecall",
                "MulticlassSpecificity",
            ]
        },
        "top_k": {
            "metric": [
                "MulticlassAccuracy",
                "MulticlassF1Score",
                "MulticlassFBetaScore",
                "MulticlassHammingDistance",
                "MulticlassNegativePredictiveValue",
                "MulticlassPrecision",
                "MulticlassRecall",
                "MulticlassSpecificity",
            ]
        },
    },
)


def torchmetrics(
    score: Floats,
    outcome: Floats,
    is_calibration: Floats,
    weights: Weights,
    *,
    metric: Literal[
        "BinaryAUROC",
        "BinaryAccuracy",
        "BinaryAveragePrecision",
        "BinaryCalibrationError",
        "BinaryCohenKappa",
        "BinaryEER",
        "BinaryF1Score",
        "BinaryFBetaScore",
        "BinaryHammingDistance",
        "BinaryHingeLoss",
        "BinaryJaccardIndex",
        "BinaryLogAUC",
        "BinaryMatthewsCorrCoef",
        "BinaryNegativePredictiveValue",
        "BinaryPrecision",
        "BinaryRecall",
        "BinarySpecificity",
        "MulticlassAUROC",
        "MulticlassAccuracy",
        "MulticlassAveragePrecision",
        "MulticlassCalibrationError",
        "MulticlassCohenKappa",
        "MulticlassF1Score",
        "MulticlassFBetaScore",
        "MulticlassHammingDistance",
        "MulticlassHingeLoss",
        "MulticlassJaccardIndex",
        "MulticlassMatthewsCorrCoef",
        "MulticlassNegativePredictiveValue",
        "MulticlassPrecision",
        "MulticlassRecall",
        "MulticlassSpecificity",
    ],
    positive: Literal["right", "wrong"] = "right",
    right_from: Annotated[float, Gt(0), Le(1)] = 0.5,
    threshold: Annotated[float, Gt(0), Lt(1)] = 0.5,
    beta: Annotated[float, Gt(0), Le(100)] = 1.0,
    n_bins: Annotated[int, Ge(1), Le(1000)] = 15,
    norm: Literal["l1", "l2", "max"] = "l1",
    max_fpr: Annotated[float, Gt(0), Le(1)] | None = None,
    squared: bool = False,
    average: Literal["macro", "micro", "weighted"] = "macro",
    top_k: Annotated[int, Ge(1), Le(26)] = 1,
    rows: Literal["test", "all"] = "test",
) -> Floats:
    """Value of torchmetrics' class `metric`: of the confidence if binary, else of the options.

    `Binary...`: preds are the confidence, target is whether the answer is right; with `positive: wrong` both are reversed.
    `Multiclass...`: preds are the probabilities of all options, target is the right one, `num_classes` the largest number of options.
    The other arguments have their meaning and defaults there, but for `beta`, which has none there. Of multiclass averages, options
    that are neither right nor predicted count as torchmetrics has it.

    Undefined, where torchmetrics gives 0: a rank metric without both classes, precision without a positive prediction, recall and average
    precision without a positive, the mirror images of these, F scores and Jaccard without either, correlations without both classes on
    both sides, and the macro AUROC and average precision of options of which one is never right. Calibration errors are biased estimates:
    they have no interval and are not compared; `ece` is.

    Left out are classes that give no single number, and arguments that change no value here, or only by approximation (`thresholds`).
    Every resample is a call of torchmetrics, which takes about a millisecond.

    Args:
        metric: Name of the class in `torchmetrics.classification`.
        positive: Which answers are the positive class.
        right_from: The least correctness that counts as right (a half-right answer does, by default).
        threshold: Confidence above which an answer is called positive.
        beta: Weight of recall in the F score; 1 is F1.
        n_bins: Bins of the calibration error.
        norm: Norm of the calibration error: `l1` is ECE, `max` is MCE.
        max_fpr: Largest false positive rate of a partial AUROC; None for the whole.
        squared: Square the hinge loss.
        average: Over options; `micro` not for AUROC and average precision.
        top_k: Number of likeliest options of which one must be right.
        rows: `test`: rows no conformal setting calibrates on. `all`: every row.
    """
    import torch
    from torchmetrics import classification

    chosen = chosen_rows(is_calibration, rows) > 0
    scores, target = _torchmetrics_inputs(score[chosen], outcome[chosen], metric, positive, right_from)
    given: dict[str, Any] = {
        "threshold": threshold, "beta": beta, "n_bins": n_bins, "norm": norm, "max_fpr": max_fpr, "squared": squared, "average": average,
        "top_k": top_k,
    }  # fmt: skip
    own = {name: value for name, value in given.items() if _takes(metric, name)}
    of_options = {} if metric.startswith("Binary") else {"num_classes": score.shape[1]}
    module = getattr(classification, metric)(**own, **of_options, validate_args=False)
    preds, targets = torch.from_numpy(scores), torch.from_numpy(target)
    values = np.full(weights.shape[0], np.nan)
    for b, counts in enumerate(np.asarray(weights)[:, chosen]):
        drawn = np.repeat(np.arange(len(target)), counts.astype(np.int64))
        if len(drawn) and not _explain_undefined(scores[drawn], target[drawn], metric, positive, threshold, average):
            values[b] = _value(module, preds[drawn], targets[drawn])
    return values


def _value(module: Any, preds: torch.Tensor, target: torch.Tensor) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that are absent: what is undefined is not asked for
        module.update(preds, target)
        value = float(module.compute())
    module.reset()
    return value


def _takes(metric: str, parameter: str) -> bool:
    return bool(by_argument(dict.fromkeys(META.only_with[parameter]["metric"], True), metric, False))


def _torchmetrics_inputs(score: Floats, outcome: Floats, metric: str, positive: str, right_from: float) -> tuple[Floats, NDArray[np.int64]]:
    """Return (preds clipped to [0, 1], target); reversed if binary and `positive` is wrong."""
    score = np.clip(score, 0.0, 1.0)
    if not metric.startswith("Binary"):
        return score, outcome.astype(np.int64)
    right = outcome >= right_from
    return (score, right.astype(np.int64)) if positive == "right" else (1.0 - score, (~right).astype(np.int64))


def _explain_undefined(score: Floats, target: NDArray[np.int64], metric: str, positive: str, threshold: float, average: str) -> str:
    """Return why the metric is undefined on these rows; "" where it has a value."""
    name = metric.removeprefix("Binary").removeprefix("Multiclass")
    if metric.startswith("Multiclass"):
        right, called = len(np.unique(target)), len(np.unique(score.argmax(axis=1)))
        if name in ("AUROC", "AveragePrecision") and average == "macro" and right < score.shape[1]:
            return "an option is never right"
        if name in ("AUROC", "MatthewsCorrCoef", "CohenKappa") and right < 2:
            return "the same option is right in all questions"
        return "the same option is likeliest in all questions" if name == "MatthewsCorrCoef" and called < 2 else ""
    is_called = score > threshold
    no_positive, only_positive = not target.any(), bool(target.all())
    none_called, all_called = not is_called.any(), bool(is_called.all())
    lacking = {
        f"no answer is {positive}": no_positive and name not in ("Specificity", "NegativePredictiveValue", "Precision", *OF_ROWS, *EITHER),
        f"every answer is {positive}": only_positive and name in ("Specificity", *RANKS, *CORRELATIONS),
        f"no answer is called {positive}": none_called and name in ("Precision", "MatthewsCorrCoef"),
        f"every answer is called {positive}": all_called and name in ("NegativePredictiveValue", "MatthewsCorrCoef"),
        f"no answer is {positive} or called so": no_positive and none_called and name in EITHER,
    }
    return next((reason for reason, holds in lacking.items() if holds), "")


OF_ROWS = ("Accuracy", "HammingDistance", "HingeLoss", "CalibrationError")
EITHER = ("F1Score", "FBetaScore", "JaccardIndex")
RANKS = ("AUROC", "EER", "LogAUC")
CORRELATIONS = ("MatthewsCorrCoef", "CohenKappa")


def why_undefined(
    score: Floats,
    outcome: Floats,
    is_calibration: Floats,
    *,
    metric: str,
    positive: str = "right",
    right_from: float = 0.5,
    threshold: float = 0.5,
    average: str = "macro",
    rows: str = "test",
    **others: Any,
) -> str:
    """Return the reason for an undefined value; "" if it is defined or there are no rows."""
    chosen = chosen_rows(is_calibration, rows) > 0
    scores, target = _torchmetrics_inputs(score[chosen], outcome[chosen], metric, positive, right_from)
    return _explain_undefined(scores, target, metric, positive, threshold, average) if len(target) else ""


def classes(score: Floats, outcome: Floats, is_calibration: Floats, *, right_from: float = 0.5, **others: Any) -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where the answer is right, else 0."""
    return (outcome >= right_from).astype(np.float64)


def types(score: Floats, outcome: Floats, is_calibration: Floats, *, average: str = "macro", **others: Any) -> Floats:
    """Return the (n,) right options for a macro average; all 0 for other averages."""
    return outcome if average == "macro" else np.zeros(len(outcome))


def enters(score: Floats, outcome: Floats, is_calibration: Floats, *, rows: str = "test", **others: Any) -> Floats:
    """Return (n,) 1 for the rows that the metric is computed over, else 0."""
    return chosen_rows(is_calibration, rows)


def bounds(*, metric: str) -> tuple[float, float]:
    """Return the lowest and highest possible value: (-1, 1), (0, 4) or (0, 1), by metric."""
    if metric.endswith(("MatthewsCorrCoef", "CohenKappa")):
        return -1.0, 1.0
    return (0.0, 4.0) if metric.endswith("HingeLoss") else (0.0, 1.0)
