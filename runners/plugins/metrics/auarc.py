"""Area under the accuracy-rejection curve (Nadeem, Zucker, Hanczar, 2009; in this form Lin, Trivedi, Sun, 2023)."""

from typing import Literal

import numpy as np

from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.ranking import tie_sums

CITES = ["nadeem2009accuracy", "lin2024generating"]
HIGHER_IS_BETTER = True
INTERVAL = "proportion"


def auarc(uncertainty: Floats, correct: Floats, weights: Weights, *, form: Literal["trapezoid", "rectangle"] = "trapezoid") -> Floats:
    """Accuracy among the most certain answers, averaged over how many are kept.

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
    count, right = tie_sums(uncertainty, [np.ones_like(correct), correct], weights)
    if not (count == np.rint(count)).all():
        raise ValueError("auarc: expected weights that are counts, got fractions")
    here = count.astype(np.int64)
    after = np.cumsum(here, axis=1)
    before = after - here
    total = after[:, -1]
    whole = total.astype(np.float64)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, max(2, total.max() + 1)))])
    mean_here = np.where(here > 0, right / np.maximum(here, 1), 0.0)
    right_before = np.cumsum(right, axis=1) - right
    # within a tie, a_k = (right_before + mean * (k - before)) / k; summed over k that is a harmonic number
    area = (mean_here * here + (right_before - mean_here * before) * (harmonic[after] - harmonic[before])).sum(axis=1)
    if form == "rectangle":
        return ratio(area, whole)
    first = mean_here[np.arange(len(here)), (here > 0).argmax(axis=1)]
    ends = (first + ratio(right.sum(axis=1), whole)) / 2
    return np.where(total > 1, ratio(area - ends, np.maximum(whole - 1, 1)), np.nan)
