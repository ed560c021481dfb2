"""Intervals of macro averages: means over slices or datasets, each counting alike.

Two intervals are computed, and the outer ends count:

- Student's t with the standard error over resamples. It misses the spread of small slices in which every answer is right.
- The intervals of the slices, each by the method of its metric, put together as those of a sum of estimates (MOVER: Zou, Donner, 2008;
  with correlations: Zou, 2007). It is too short on one side where many small slices have skewed intervals.

With two or three small slices of extreme values this is conservative.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qualm.runners.data.aligned import Floats
from qualm.runners.scoring.limits import FLAT, Limits, critical


@dataclass(frozen=True)
class ValueEstimate:
    """A value with its interval, degrees of freedom and standard error."""

    value: float
    ends: Limits
    freedom: float
    """Degrees of freedom of Student's t in the interval."""
    error: float
    """Standard error over resamples."""


def macro_limits(
    estimates: Sequence[ValueEstimate], level: float, correlation: Floats | None = None, most_freedom: float = math.inf
) -> Limits:
    """Return the interval of the mean of estimates; of a single one its own.

    Its distance from the mean is t sqrt(s' R s) / k on either side, with s the k standard errors or, if that is larger, the distances of
    the estimates' ends from their values over their own t quantiles; R is the correlation. The degrees of freedom are by Satterthwaite's
    rule (1946).

    `correlation` is (k, k), by default that of independent estimates; `most_freedom` bounds the degrees of freedom of estimates that share
    groups.

    >>> two = [ValueEstimate(0.6, Limits(0.5, 0.7), math.inf, 0.02), ValueEstimate(0.8, Limits(0.7, 0.85), math.inf, 0.02)]
    >>> [round(end, 4) for end in (macro_limits(two, 0.95).low, macro_limits(two, 0.95).high)]
    [0.6293, 0.7559]
    """
    if len(estimates) == 1:
        return estimates[0].ends
    values, errors, freedoms = (np.array([getattr(e, name) for e in estimates]) for name in ("value", "error", "freedom"))
    quantiles = np.array([critical(level, freedom) for freedom in freedoms])
    below, above = values - [e.ends.low for e in estimates], [e.ends.high for e in estimates] - values
    together = np.eye(len(values)) if correlation is None else correlation

    def distance(spread: Floats) -> float:
        shares = spread**2 / max(FLAT**2, float((spread**2).sum()))
        certain = float((shares**2 / freedoms).sum())
        freedom = min(most_freedom, 1 / certain if certain > 0 else math.inf)
        return critical(level, max(1.0, freedom)) * math.sqrt(max(0.0, float(spread @ together @ spread))) / len(spread)

    least, mean = distance(errors), float(values.mean())
    low, high = (max(least, distance(outer / quantiles)) for outer in (below, above))
    return Limits(mean - low, mean + high) if low + high > FLAT else Limits(why_none="every resample gives the same value")


def correlations(resampled: Sequence[Floats]) -> Floats:
    """Return the (k, k) correlations of k values over resamples.

    A value that does not vary is uncorrelated with all others; one that is undefined in a resample takes its mean there.
    """
    drawn = np.stack(resampled)
    defined = ~np.isnan(drawn)
    counts = np.maximum(1, defined.sum(axis=1, keepdims=True))
    centred = np.where(defined, drawn - np.where(defined, drawn, 0.0).sum(axis=1, keepdims=True) / counts, 0.0)
    spread = np.sqrt((centred**2).sum(axis=1))
    scaled = np.divide(centred, spread[:, None], out=np.zeros_like(centred), where=spread[:, None] > FLAT)
    matrix: Floats = scaled @ scaled.T
    np.fill_diagonal(matrix, 1.0)
    return matrix
