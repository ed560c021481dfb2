"""Newton's method with halved steps, for convex losses of many resamples at once."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Floats

STEPS, HALVINGS = 60, 30
CLOSE = 1e-11
MAX_NUMBERS = 4_000_000
"""Numbers of one intermediate array."""
SEPARATED = 1e4
"""Slopes beyond this, in standard deviations of the score, are those of right and wrong that a threshold separates: no loss is least."""


def blocks(weights: Floats, numbers_per_resample: int) -> Iterator[Floats]:
    """Yield slices of rows of (B, n) weights, MAX_NUMBERS / `numbers_per_resample` rows each."""
    step = max(1, MAX_NUMBERS // max(1, numbers_per_resample))
    return (weights[i : i + step] for i in range(0, len(weights), step))


def find_minimum(start: Floats, move: Callable[[Floats], Floats], loss: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """Minimise each convex loss by damped Newton steps; return ((B, k) points, (B,) losses).

    Callers check whether it converged. It ends when nothing moves any more, or when every resample has a parameter beyond `SEPARATED`.
    `start` is (B, k); `move` gives Newton's full step at parameters, which is taken away from them, and `loss` (B,) convex losses.
    """
    fit, at = start, loss(start)
    for _ in range(STEPS):
        step = move(fit)
        for _ in range(HALVINGS):
            new = loss(fit - step)
            # Newton's full step may overshoot far from the least loss, though the loss is convex.
            worse = new > at + 1e-12 * np.abs(at)
            if not worse.any():
                break
            step = np.where(worse[:, None], step / 2, step)
        fit, at = fit - step, new
        if (np.abs(step) <= CLOSE * np.maximum(1.0, np.abs(fit))).all() or is_separated(fit).all():
            break
    return fit, at


def is_separated(fit: Floats) -> NDArray[np.bool_]:
    """Return (B,) True where a parameter exceeds SEPARATED, as where classes are separable."""
    return np.asarray((np.abs(fit) > SEPARATED).any(axis=1))
