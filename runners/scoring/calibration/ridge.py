"""Ridge logistic regression of many resamples at once, by Newton's method. le Cessie, van Houwelingen, 1992."""

from typing import Any

import numpy as np

from qualm.runners.contracts.grouped_weights import Floats
from qualm.runners.scoring.calibration.newton import blocks, find_minimum


def ridge_fits(score: Floats, right: Floats, weights: Any, l2: float) -> tuple[Floats, Floats]:
    """Return ((B, d) slopes, (B,) shifts) of least penalised log-loss; NaN without a fit.

    The penalty l2 / 2 times the squares of the slopes concerns scores in standard deviations of each resample.

    `score` is (n, d), `right` (n,) from 0 to 1, `weights` (B, n), and `l2` above 0.
    """
    drawn = np.asarray(weights, dtype=np.float64)
    mean, scale = score.mean(axis=0), score.std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(mean)), scale, 1.0)
    x = (score - mean) / scale
    start = _fit(x, right, drawn.sum(axis=0)[None] / len(drawn), l2, np.zeros((1, x.shape[1] + 1)))
    start = np.nan_to_num(start)
    width = len(x) + (x.shape[1] + 1) ** 2
    fits = np.concatenate([_fit(x, right, some, l2, start.repeat(len(some), axis=0)) for some in blocks(drawn, width)])
    slopes = fits[:, :-1] / scale
    return slopes, fits[:, -1] - slopes @ mean


def _fit(x: Floats, right: Floats, weights: Floats, l2: float, start: Floats) -> Floats:
    """Return (B, d + 1) penalised slopes, shift last, of each resample; NaN without a fit."""
    n_right, n_wrong = weights @ right, weights @ (1 - right)
    total = np.maximum(n_right + n_wrong, 1e-300)
    means = weights @ x / total[:, None]
    variances = np.maximum(weights @ x**2 / total[:, None] - means**2, 0.0)
    # A score that is constant in a resample says the same as the shift: any penalty keeps its slope at 0.
    penalty = l2 * np.where(variances > 1e-12, variances, 1.0)
    penalty = np.column_stack([penalty, np.zeros(len(weights))])
    columns = np.column_stack([x, np.ones(len(x))])
    d = columns.shape[1]
    products = (columns[:, :, None] * columns[:, None, :]).reshape(len(x), d * d)
    goal = (weights * right) @ columns

    def slope(fit: Floats) -> tuple[Floats, Floats]:
        from scipy.special import expit

        p = expit(fit @ columns.T)
        return p, (weights * p) @ columns - goal + penalty * fit

    def move(fit: Floats) -> Floats:
        p, gradient = slope(fit)
        curve = ((weights * p * (1 - p)) @ products).reshape(-1, d, d)
        curve[:, range(d), range(d)] += penalty + 1e-12 * total[:, None]
        return np.asarray(np.linalg.solve(curve, gradient[:, :, None])[:, :, 0])

    def loss(fit: Floats) -> Floats:
        odds = fit @ columns.T
        return np.asarray((weights * np.logaddexp(0.0, odds)).sum(axis=1) - (goal * fit).sum(axis=1) + (penalty * fit**2).sum(axis=1) / 2)

    both = np.minimum(n_right, n_wrong) > 0
    fit = np.full_like(start, np.nan)
    if both.any():
        keep = np.flatnonzero(both)
        weights, goal, penalty, total = weights[keep], goal[keep], penalty[keep], total[keep]
        found, _ = find_minimum(start[keep], move, loss)
        _, gradient = slope(found)
        at_its_least = np.abs(gradient).max(axis=1) <= 1e-6 * total
        fit[keep] = np.where(at_its_least[:, None], found, np.nan)
    return fit
