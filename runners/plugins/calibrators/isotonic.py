"""Isotonic regression. Zadrozny, Elkan, Transforming Classifier Scores into Accurate Multiclass Probability Estimates, KDD 2002."""

import numpy as np

from qualm.runners.contracts.grouped_weights import Floats, Weights

CITES = ["zadrozny2002transforming"]


def isotonic(score: Floats, right: Floats, weights: Weights, at: Floats) -> Floats:
    """Return (B, m) P(right) at `at`: the increasing function with the least squared error.

    Linear between scores, constant beyond them; equal scores have one probability. Many answers come out equal, some at 0 or 1; otherwise
    the order is kept. It overfits where few answers calibrate. In [0, 1]; undefined where none does.
    """
    from scipy.optimize import isotonic_regression

    values, place = np.unique(score, return_inverse=True)
    confidences = np.full((weights.shape[0], len(at)), np.nan)
    order = np.argsort(at)
    ascending = at[order]  # interpolated several times as fast
    for b, drawn in enumerate(np.asarray(weights, dtype=np.float64)):
        count = np.bincount(place, drawn, len(values))
        there = count > 0
        if there.any():
            shares = np.bincount(place, drawn * right, len(values))[there] / count[there]
            confidences[b, order] = np.interp(ascending, values[there], isotonic_regression(shares, weights=count[there]).x)
    clipped: Floats = np.clip(confidences, 0.0, 1.0)
    return clipped
