"""Beta curves by least log-loss, of many resamples at once: sigmoid(a ln p - b ln(1 - p) + c) with a, b >= 0. Kull and others, 2017.

Newton's method on a convex loss. Where the best of all has a negative slope, the best that has none lies where one slope or both are 0. So
it does where there is no best of all because right and wrong are separated by a curve with a negative slope, such as one that falls.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from qualm.runners.contracts.grouped_weights import Floats
from qualm.runners.scoring.calibration.logistic import sigmoids
from qualm.runners.scoring.calibration.newton import blocks, find_minimum, is_separated

STEEPEST = 200.0
"""Steepest slope where the other one is 0; larger ones change no answer that a threshold does not separate."""


def beta_curves(log_odds: Floats, right: Floats, weights: Any) -> Floats:
    """Fit (B, 3) beta curves: a, b >= 0 and c; NaN if no wrong answer outscores a right one.

    `log_odds` (n,) are those of the confidence p, `right` (n,) is from 0 to 1, and `weights` are (B, n).
    """
    drawn = np.asarray(weights, dtype=np.float64)
    ends = np.column_stack([-np.logaddexp(0, -log_odds), np.logaddexp(0, log_odds)])  # ln p and -ln(1 - p)
    return np.concatenate([_fit_constrained(ends, right, some) for some in blocks(drawn, len(log_odds))])


def _fit_constrained(ends: Floats, right: Floats, weights: Floats) -> Floats:
    fits = _fit_unconstrained(ends, right, weights)
    below = np.flatnonzero((fits[:, :2] < 0).any(axis=1) | (np.isnan(fits[:, 0]) & ~_is_separated_upward(ends[:, 0], right, weights)))
    if not len(below):
        return fits
    drawn, zeros = weights[below], np.zeros(len(below))
    only_a, only_b = (sigmoids(ends[:, k], right, drawn, False, 0.0, STEEPEST) for k in (0, 1))
    candidates = [np.column_stack([only_a[:, 0], zeros, only_a[:, 1]]), np.column_stack([zeros, only_b[:, 0], only_b[:, 1]])]
    losses = np.stack([np.nan_to_num(_loss(_design(ends), right, drawn, fit), nan=np.inf) for fit in candidates])
    fits[below] = np.where((losses[0] <= losses[1])[:, None], *candidates)
    return fits


def _is_separated_upward(score: Floats, right: Floats, weights: Floats) -> NDArray[np.bool_]:
    """Return (B,) True where right answers of weight > 0 score at least as high as wrong ones."""
    least_right = np.where((weights > 0) & (right > 0), score, np.inf).min(axis=1)
    most_wrong = np.where((weights > 0) & (right < 1), score, -np.inf).max(axis=1)
    return np.asarray(least_right >= most_wrong)


def _design(ends: Floats) -> Floats:
    return np.column_stack([ends, np.ones(len(ends))])


def _fit_unconstrained(ends: Floats, right: Floats, weights: Floats) -> Floats:
    """Return (B, 3) beta curves of any slope from (n, 2) `ends`, ln p and -ln(1 - p); or NaN."""
    middle, scale = ends.mean(axis=0), ends.std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(middle)), scale, 1.0)
    x = _design((ends - middle) / scale)
    products = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    total, n_right = weights.sum(axis=1), weights @ right

    def move(fit: Floats) -> Floats:
        p = expit(fit @ x.T)
        curve = ((weights * p * (1 - p)) @ products).reshape(len(fit), x.shape[1], -1)
        inverse = np.linalg.pinv(curve, rcond=1e-13, hermitian=True)
        return np.asarray(np.einsum("bij,bj->bi", inverse, (weights * (p - right)) @ x))

    fit, loss = find_minimum(np.zeros((len(weights), x.shape[1])), move, lambda fit: _loss(x, right, weights, fit))
    left = np.abs((weights * (expit(fit @ x.T) - right)) @ x).max(axis=1)
    at_its_least = (left <= 1e-6 * total) & ~is_separated(fit) & (loss >= 1e-6 * total) & (np.minimum(n_right, total - n_right) > 0)
    slopes = fit[:, :2] / scale
    return np.where(at_its_least[:, None], np.column_stack([slopes, fit[:, 2] - slopes @ middle]), np.nan)


def _loss(x: Floats, right: Floats, weights: Floats, fit: Floats) -> Floats:
    odds = fit @ x.T
    return np.asarray((weights * (np.logaddexp(0.0, odds) - right * odds)).sum(axis=1))
