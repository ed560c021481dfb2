"""Temperature and sigmoid by least log-loss, of many resamples at once. Guo, Pleiss, Sun, Weinberger, 2017; Platt, 1999.

Both are Newton's method on a convex loss. All resamples of a block begin at the fit of their sum, from which a few steps are left.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Floats
from qualm.runners.scoring.calibration.newton import CLOSE, STEPS, blocks, find_minimum, is_separated

WIDEST = 50.0
"""Temperatures lie in 1/50..50: beyond, none is better than these."""


def temperatures(logits: Floats, target: Floats, weights: Any) -> Floats:
    """Return (B,) temperatures T in 1/50..50 with the least log-loss of softmax(logits / T).

    NaN where a resample has no row.

    Args:
        logits: (n, K), NaN where there is no option.
        target: (n,) the logit of the right option; in expectation where that is uncertain.
        weights: (B, n).
    """
    z = np.where(np.isnan(logits), -np.inf, logits)
    top = z.max(axis=1)
    # The largest power becomes e to the 0, so none overflows.
    z, target = z - top[:, None], target - top
    drawn = np.asarray(weights, dtype=np.float64)
    # Every resample begins at the fit of the whole sample, from which its own is a few steps away.
    start = _inverse_temperatures(z, target, drawn.sum(axis=0)[None], 1.0)[0]
    inverse = np.concatenate([_inverse_temperatures(z, target, some, start) for some in blocks(drawn, z.size)])
    return np.where(drawn.any(axis=1), 1 / inverse, np.nan)


def _inverse_temperatures(z: Floats, target: Floats, weights: Floats, start: float) -> Floats:
    """Return (B,) inverse temperatures in 1/50..50 of least log-loss, by safeguarded Newton."""
    times = len(weights)
    low, high = np.full(times, 1 / WIDEST), np.full(times, WIDEST)
    inverse = np.full(times, start)
    # 0 times -inf would be NaN; an option that does not exist has share 0 anyway.
    there = np.where(np.isinf(z), 0.0, z)
    goal = weights @ target
    for _ in range(STEPS):
        # In the first step all resamples have one temperature: one softmax serves them all.
        common = inverse[:1] if np.ptp(inverse) == 0 else inverse
        powers = np.exp(common[:, None, None] * z)
        shares = powers / powers.sum(axis=2, keepdims=True)
        mean = (shares * there).sum(axis=2)
        spread = (shares * there**2).sum(axis=2) - mean**2
        if len(common) == 1:
            slope, curve = weights @ mean[0] - goal, weights @ spread[0]
        else:
            slope, curve = (weights * mean).sum(axis=1) - goal, (weights * spread).sum(axis=1)
        low, high = np.where(slope < 0, np.maximum(low, inverse), low), np.where(slope > 0, np.minimum(high, inverse), high)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = np.where(slope == 0, inverse, inverse - slope / curve)
        # Halved on the logarithm, since temperatures differ by factors.
        new = np.where(np.isfinite(new) & (new >= low) & (new <= high), new, np.sqrt(low * high))
        moved = np.abs(new - inverse)
        inverse = new
        if (moved <= CLOSE * inverse).all():
            break
    return inverse


def softmax_at_temperatures(logits: Floats, temperature: Floats) -> Floats:
    """Return (B, m, K) softmax of (m, K) logits over (B,) temperatures; NaN where no option."""
    z = logits - np.nanmax(logits, axis=1, keepdims=True)
    powers = np.exp(z / temperature[:, None, None])
    return np.asarray(powers / np.nansum(powers, axis=2, keepdims=True))


def sigmoids(
    score: Floats, right: Floats, weights: Any, prior_correction: bool, least_slope: float = -np.inf, largest_slope: float = np.inf
) -> Floats:
    """Return (B, 2) (slope, shift) of the sigmoids with the least log-loss; NaN if none is.

    A sigmoid is sigmoid(a * score + b), with slope a and shift b. Where the best slope lies outside `least_slope`..`largest_slope`, it is
    the end with the smaller loss, with the best shift there.

    Args:
        score: (n,).
        right: (n,) 0..1.
        weights: (B, n).
        prior_correction: hold the sigmoid to (N1 + 1) / (N1 + 2) of what is right and 1 / (N0 + 2) of what is wrong instead of 1 and 0.
    """
    drawn = np.asarray(weights, dtype=np.float64)
    mean, scale = float(score.mean()), float(score.std())
    if scale <= 1e-12 * max(1.0, abs(mean)):
        scale = 0.0
    # Standardised, so that SEPARATED and the tolerances mean the same for every score.
    x = (score - mean) / scale if scale else np.zeros_like(score)
    of_sample = _newton(x, right, drawn.sum(axis=0)[None], prior_correction, np.zeros((1, 2)), bool(scale))
    start = of_sample if np.isfinite(of_sample).all() else np.zeros((1, 2))
    each = [_newton(x, right, of, prior_correction, start.repeat(len(of), axis=0), bool(scale)) for of in blocks(drawn, len(score))]
    fits = np.concatenate(each)
    # Where the sample's fit is steep, as where a threshold separates it, a resample's loss may be flat: no step moves. At 0 it is not.
    stuck = np.isnan(fits).any(axis=1)
    fits[stuck] = _newton(x, right, drawn[stuck], prior_correction, np.zeros((int(stuck.sum()), 2)), bool(scale))
    if np.isfinite(largest_slope):
        fits = _limit_slopes(x, right, drawn, prior_correction, fits, (least_slope * (scale or 1.0), largest_slope * (scale or 1.0)))
    slope = fits[:, 0] / scale if scale else fits[:, 0]
    return np.column_stack([slope, fits[:, 1] - slope * mean])


def _limit_slopes(
    x: Floats, right: Floats, weights: Floats, prior_correction: bool, fits: Floats, slope_limits: tuple[float, float]
) -> Floats:
    """Refit, in place, rows of `fits` whose slope is outside the limits; return `fits`.

    The new slope is the limit with the smaller loss, with the best shift at it. A row of NaN is refitted too. `x` is the standardised
    score, and `fits` (B, 2) are slope and shift in it.
    """
    outside = np.flatnonzero(~((fits[:, 0] >= slope_limits[0]) & (fits[:, 0] <= slope_limits[1])))
    if not len(outside):
        return fits
    drawn, goal = weights[outside], _goal(x, right, weights[outside], prior_correction)
    held = [_newton(x, right, drawn, prior_correction, np.tile([end, 0.0], (len(outside), 1)), False) for end in slope_limits]
    with np.errstate(invalid="ignore"):  # of what has no fit, which is not finite
        losses = np.stack([np.nan_to_num(_loss(x, drawn, fit, goal), nan=np.inf) for fit in held])
    fits[outside] = np.where((losses[0] <= losses[1])[:, None], *held)
    return fits


def _goal(x: Floats, right: Floats, weights: Floats, prior_correction: bool) -> Floats:
    """Return (2, B) weighted sums of p * score and of p that hold at the least log-loss."""
    n_right, n_wrong = weights @ right, weights @ (1 - right)
    high, low = np.ones(len(weights)), np.zeros(len(weights))
    if prior_correction:
        high, low = (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2)
    return np.stack([high * (weights @ (right * x)) + low * (weights @ ((1 - right) * x)), high * n_right + low * n_wrong])


def _newton(x: Floats, right: Floats, weights: Floats, prior_correction: bool, start: Floats, with_slope: bool) -> Floats:
    """Fit (B, 2) slopes and shifts from `start`, or shifts only; NaN where no loss is least."""
    n_right, n_wrong = weights @ right, weights @ (1 - right)
    goal = _goal(x, right, weights, prior_correction)
    total = np.maximum(n_right + n_wrong, 1e-300)

    def move(fit: Floats) -> Floats:
        p = _expit(fit[:, :1] * x + fit[:, 1:])
        curve = weights * p * (1 - p)
        slope_a, slope_b = (weights * p) @ x - goal[0], (weights * p).sum(axis=1) - goal[1]
        aa, ab, bb = curve @ (x * x), curve @ x, curve.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            if with_slope:
                det = aa * bb - ab * ab
                # Nearly singular: only the shift is moved, and the slope waits.
                usable = det > 1e-14 * aa * bb
                step = np.column_stack([bb * slope_a - ab * slope_b, aa * slope_b - ab * slope_a]) / det[:, None]
                step = np.where(usable[:, None], step, np.column_stack([np.zeros(len(bb)), slope_b / bb]))
            else:
                step = np.column_stack([np.zeros(len(bb)), slope_b / bb])
        return np.where(np.isfinite(step), step, 0.0)

    fit, _ = find_minimum(start, move, lambda fit: _loss(x, weights, fit, goal))
    p = _expit(fit[:, :1] * x + fit[:, 1:])
    left = np.abs((weights * p).sum(axis=1) - goal[1])
    if with_slope:
        left = np.maximum(left, np.abs((weights * p) @ x - goal[0]))
    at_its_least = (left <= 1e-6 * total) & ~is_separated(fit) & (np.minimum(n_right, n_wrong) > 0)
    if with_slope and not prior_correction:
        at_its_least &= _has_minimum(x, right, weights)
    return np.where(at_its_least[:, None], fit, np.nan)


def _has_minimum(x: Floats, right: Floats, weights: Floats) -> NDArray[np.bool_]:
    """Return (B,) whether the loss has a minimum.

    It falls without end with the slope if no wrong answer scores above any right one, or none below any (Albert, Anderson, 1984). If all
    scores are equal, the slope does not matter.
    """
    ends = []
    for share in (right, 1 - right):
        among = (weights > 0) & (share > 0)
        ends.append((np.where(among, x, np.inf).min(axis=1), np.where(among, x, -np.inf).max(axis=1)))
    (least_right, most_right), (least_wrong, most_wrong) = ends
    apart = (most_wrong <= least_right) | (most_right <= least_wrong)
    return np.asarray(~apart | (np.minimum(least_right, least_wrong) == np.maximum(most_right, most_wrong)))


def _loss(x: Floats, weights: Floats, fit: Floats, goal: Floats) -> Floats:
    odds = fit[:, :1] * x + fit[:, 1:]
    return np.asarray((weights * np.logaddexp(0.0, odds)).sum(axis=1) - fit[:, 0] * goal[0] - fit[:, 1] * goal[1])


def _expit(odds: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(odds))
