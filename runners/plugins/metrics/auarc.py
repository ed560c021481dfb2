"""Area under the accuracy-rejection curve (Nadeem, Zucker, Hanczar, 2009; in this form Lin, Trivedi, Sun, 2023)."""

from typing import Literal

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.ranking import RetainedAccuracy, aurc_error

CITES = ["nadeem2009accuracy", "lin2024generating"]
META = MetricMeta(higher_is_better=True, interval="proportion")


def auarc(uncertainty: Floats, correct: Floats, weights: Weights, *, form: Literal["trapezoid", "rectangle"] = "trapezoid") -> Floats:
    """Accuracy among the most certain answers, averaged over the share of answers kept.

    With a_k the mean correctness of the k least uncertain of n answers: `rectangle` is the mean of a_1..a_n;
    `trapezoid` the area under them as n equally spaced points of [0, 1]. In [0, 1], higher is better; a useless
    uncertainty gives the plain accuracy. Equally uncertain answers count in expectation over their orders, so no order
    of rows matters. Undefined without rows, and for the trapezoid of a single one.

    Args:
        form: Trapezoid (UQ-NLG) or rectangle (lm-polygraph's prediction rejection area).

    Raises:
        ValueError: weights that are not counts.
    """
    if not len(correct):
        return np.full(weights.shape[0], np.nan)
    least_doubted = RetainedAccuracy.compute(uncertainty, correct, weights, "auarc")
    area, total = least_doubted.sum_retained_means(), least_doubted.total
    whole = total.astype(np.float64)
    if form == "rectangle":
        return ratio(area, whole)
    first = least_doubted.mean[np.arange(len(total)), (least_doubted.here > 0).argmax(axis=1)]
    ends = (first + ratio(least_doubted.right.sum(axis=1), whole)) / 2
    return np.where(total > 1, ratio(area - ends, np.maximum(whole - 1, 1)), np.nan)


def classes(uncertainty: Floats, correct: Floats, *, form: str = "trapezoid") -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where the answer is right, else 0."""
    return (correct >= 0.5).astype(np.float64)


def minimum_standard_error(uncertainty: Floats, correct: Floats, value: float, *, form: str = "trapezoid") -> float:
    """Return the smallest credible standard error at this value: that of independent answers."""
    return aurc_error(correct, 1 - value)


def chance(correct: Floats) -> float:
    """Return the value of an uncertainty without information: the accuracy."""
    return float(correct.mean())
