"""Area under the ROC curve: can uncertainty tell wrong answers from right ones?"""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt, Le

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.ranking import auroc_error, tie_sums

META = MetricMeta(higher_is_better=True, interval="proportion")
NEEDS = {"doubt": {"by": {"uncertainty": "uncertainty", "confidence": "confidence"}}}


def auroc(
    doubt: Floats,
    correct: Floats,
    weights: Weights,
    *,
    right_from: Annotated[float, Gt(0), Le(1)] = 0.5,
    by: Literal["uncertainty", "confidence"] = "uncertainty",
) -> Floats:
    """Probability that a wrong answer is more uncertain than a right one.

    P(u_wrong > u_right) + 1/2 P(u_wrong = u_right), in [0, 1], 0.5 is chance, higher is better. Exact, by ranks: no
    thresholds and no squashing, so any scale of uncertainty, infinities included, gives the same value. Undefined where
    all answers are right or all are wrong.

    Args:
        right_from: The least correctness that counts as right (a half-right answer does, by default).
        by: What answers are ranked by: each estimator's uncertainty, or the confidence.
    """
    if not len(correct):
        return np.full(weights.shape[0], np.nan)
    right = (correct >= right_from).astype(np.float64)
    wrongs, rights = tie_sums(doubt if by == "uncertainty" else -doubt, [1 - right, right], weights)
    below = np.cumsum(rights, axis=1) - rights
    pairs = (wrongs * (below + 0.5 * rights)).sum(axis=1)
    return ratio(pairs, wrongs.sum(axis=1) * rights.sum(axis=1))


def classes(doubt: Floats, correct: Floats, *, right_from: float = 0.5, by: str = "uncertainty") -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where the answer is right, else 0."""
    return (correct >= right_from).astype(np.float64)


def minimum_standard_error(doubt: Floats, correct: Floats, value: float, *, right_from: float = 0.5, by: str = "uncertainty") -> float:
    """Return the smallest credible standard error of this AUROC: of independent answers."""
    wrong = int((correct < right_from).sum())
    return auroc_error(doubt if by == "uncertainty" else -doubt, wrong, len(correct) - wrong, value)


def chance() -> float:
    """Return the AUROC of an uncertainty without information, 0.5."""
    return 0.5
