"""Histogram binning (Zadrozny, Elkan, 2001).

"Obtaining Calibrated Probability Estimates from Decision Trees and Naive Bayesian Classifiers", ICML 2001.
"""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from qualm.runners.contracts.grouped_weights import Floats, Weights

CITES = ["zadrozny2001obtaining"]


def histogram(score: Floats, right: Floats, weights: Weights, at: Floats, *, bins: Annotated[int, Ge(1)] = 10) -> Floats:
    """Return (B, m) P(right) at `at`: the share of right answers in equally full score bins.

    Equal scores are in one bin, that of the middle of them. A score between two bins is in the lower one. In [0, 1]; undefined where
    no answer calibrates.

    Args:
        bins: How many; few enough that each holds twenty answers or more.
    """
    values, place = np.unique(score, return_inverse=True)
    below = np.searchsorted(values, at, side="right") - 1
    shares = np.full((weights.shape[0], len(at)), np.nan)
    for b, drawn in enumerate(np.asarray(weights, dtype=np.float64)):
        count = np.bincount(place, drawn, len(values))
        there = np.flatnonzero(count > 0)
        if not len(there):
            continue
        middle = np.cumsum(count)[there] - count[there] / 2
        of_value = (bins * middle / count.sum()).astype(np.int64)
        n = np.bincount(of_value, count[there], bins)
        n_right = np.bincount(of_value, np.bincount(place, drawn * right, len(values))[there], bins)
        nearest = np.maximum(np.searchsorted(there, below, side="right") - 1, 0)
        chosen = of_value[nearest]
        shares[b] = n_right[chosen] / n[chosen]
    return shares
