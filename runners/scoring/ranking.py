"""Sums over groups of equal scores, in order: what every rank-based metric is made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Weights

Floats = NDArray[np.float64]


def tie_sums(score: Floats, columns: list[Floats], weights: NDArray[np.float64] | Weights) -> list[Floats]:
    """Per resample, each column's weighted sum over the rows of equal score, scores ascending: (B, distinct scores) each."""
    order = np.argsort(score, kind="stable")
    sorted_score = score[order]
    starts = np.flatnonzero(np.r_[True, sorted_score[1:] != sorted_score[:-1]])
    dense = np.asarray(weights.rows(order)) if isinstance(weights, Weights) else weights[:, order]
    if len(starts) == len(score):
        return [dense * column[order] for column in columns]
    return [np.add.reduceat(dense * column[order], starts, axis=1) for column in columns]
