"""Prediction rejection ratio (PRR). Malinin, Gales, 2021 (ICLR); in this form lm-polygraph: Fadeeva et al., 2023; Vashurin et al., 2025."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt, Le

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.ranking import RetainedAccuracy

CITES = ["malinin2021uncertainty", "fadeeva2023lmpolygraph"]
ALSO_KNOWN_AS = ["prr", "prr_0.5", "rejection_ratio"]
META = MetricMeta(higher_is_better=True, interval="correlation")
NEEDS = {"doubt": {"by": {"uncertainty": "uncertainty", "confidence": "confidence"}}}
SLACK = 1e-12


def prediction_rejection_ratio(
    doubt: Floats,
    correct: Floats,
    weights: Weights,
    *,
    max_rejection: Annotated[float, Gt(0), Le(1)] = 1.0,
    by: Literal["uncertainty", "confidence"] = "uncertainty",
) -> Floats:
    """Gain of rejecting by uncertainty instead of at random, as a share of the perfect gain.

    (A - A_random) / (A_perfect - A_random). A is the mean of a_k, the mean correctness of the k least uncertain of n answers, over the
    largest n * max_rejection values of k (rounded down); perfect: in the order from right to wrong; random: accuracy itself, the mean
    over all orders, for which lm-polygraph takes that of 1,000. At most 1, which is perfect; 0 is as good as chance, below is worse;
    higher is better. Equally uncertain answers count in expectation over their orders. Undefined where all answers are equally right, and
    where nothing would be rejected.

    Args:
        max_rejection: Largest share that is rejected; lm-polygraph's tables have 0.5 (`prr_0.5`), its default is 1.
        by: What answers are ranked by: each estimator's uncertainty, or the confidence.

    Raises:
        ValueError: weights that are not counts.
    """
    if not len(correct):
        return np.full(weights.shape[0], np.nan)
    of = RetainedAccuracy.compute(doubt if by == "uncertainty" else -doubt, correct, weights, "prediction_rejection_ratio")
    perfect = RetainedAccuracy.compute(-correct, correct, weights, "prediction_rejection_ratio")
    rejected = np.floor(max_rejection * of.total + 1e-9).astype(np.int64)
    area, best = (ratio(order.sum_retained_means(order.total - rejected), rejected) for order in (of, perfect))
    chance = ratio(of.right.sum(axis=1), of.total.astype(np.float64))
    return ratio(area - chance, np.where(best - chance > SLACK, best - chance, 0.0))


def why_undefined(doubt: Floats, correct: Floats, *, max_rejection: float = 1.0, by: str = "uncertainty") -> str:
    """Return the reason for an undefined value; called only where the value is NaN."""
    if int(max_rejection * len(correct) + 1e-9) < 1:
        return "so few answers that none would be rejected"
    return "all answers are equally right, so that every order of them is perfect"


def classes(doubt: Floats, correct: Floats, *, max_rejection: float = 1.0, by: str = "uncertainty") -> Floats:
    """Return the labels (n,) of the classes that the metric contrasts: 1 right, 0 wrong."""
    return (correct >= 0.5).astype(np.float64)


def bounds() -> tuple[float, float]:
    """Return the lowest and highest possible value: minus infinity, and 1."""
    return -np.inf, 1.0


def chance() -> float:
    """Return the value of an uncertainty without information: 0."""
    return 0.0
