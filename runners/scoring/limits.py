"""Ends of intervals: how far a value may lie from what endless questions would give, by the method that its metric declares.

Every method takes the standard error over resamples of whole groups and Student's t with one degree of freedom less than there are
scored groups (Cameron, Gelbach, Miller, 2008: normal quantiles and percentiles are too narrow up to some fifty groups).

- `t`: sums, means, differences; value -+ t SE.
- `proportion`: what lies in [0, 1], accuracy and AUROC alike; Wilson's score interval with as many units as would give that SE (Korn,
  Graubard, 1998; of AUROC Newcombe, 2006).
- `optimistic`: in [0, 1], the largest on the rows themselves; the same around the value less its bias over resamples.
- `correlation`: Fisher's z.
- `own`: what its plugin's function `interval` gives.
- `none`: of what no method here is known to hold; its plugin's WHY_NO_INTERVAL says why.

How often each holds the truth: docs/explanation/statistics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from qualm.runners.contracts.grouped_weights import Floats

METHODS = ("t", "proportion", "optimistic", "correlation", "own", "none")
FEWEST_GROUPS = 5
"""Scored groups; with fewer, t and the standard error both are guesses."""
FEWEST_ROWS = 5
"""Of the rarer class, where a metric sets two classes against each other..."""
FEWEST_GROUPS_OF_CLASS = 2
"""...in so many groups."""
FLAT = 1e-12


@dataclass(frozen=True)
class Limits:
    """An interval, or why there is none."""

    low: float = math.nan
    high: float = math.nan
    why_none: str = ""


@lru_cache(maxsize=4096)
def critical(level: float, freedom: float) -> float:
    """Student's t that is exceeded on either side with chance (1 - level) / 2.

    >>> round(critical(0.95, 9), 3), round(critical(0.95, math.inf), 3)
    (2.262, 1.96)
    """
    from scipy.special import ndtri, stdtrit

    return float(ndtri((1 + level) / 2) if math.isinf(freedom) else stdtrit(freedom, (1 + level) / 2))


def standard_error(resampled: Floats, groups: int) -> float:
    """Spread over the resamples that have a value; groups / (groups - 1) undoes what drawing from a sample loses of the variance."""
    defined = resampled[~np.isnan(resampled)]
    return float(np.std(defined)) * math.sqrt(groups / max(1, groups - 1))


def around(value: float, error: float, q: float) -> tuple[float, float]:
    """value -+ q SE."""
    return value - q * error, value + q * error


def score_ends(value: float, error: float, q: float, units: float) -> tuple[float, float]:
    """Wilson's interval (1927) of a share whose standard error is known: the shares p with |value - p| <= q sqrt(p (1 - p) / m).

    m is how many independent units would have that error, value (1 - value) / error^2. Where nothing varies (all right, none right)
    that is unknown, and m = `units`, the number of independent groups: certainly not more of them were seen to agree.

    >>> [round(end, 3) for end in score_ends(0.9, 0.03, 1.96, 100)], [round(end, 3) for end in score_ends(1.0, 0.0, 1.96, 100)]
    ([0.826, 0.945], [0.963, 1.0])
    """
    varies = value * (1 - value)
    m = varies / error**2 if error > FLAT and varies > FLAT else units
    share = q * q / m
    centre, half = (value + share / 2) / (1 + share), math.sqrt(share * (varies + share / 4)) / (1 + share)
    return max(0.0, min(value, centre - half)), min(1.0, max(value, centre + half))


def fisher_ends(value: float, error: float, q: float) -> tuple[float, float]:
    """Fisher's z (1921): the correlation's standard error on the scale of atanh."""
    z = math.atanh(value)
    low, high = around(z, error / (1 - value**2), q)
    return math.tanh(low), math.tanh(high)


def correlation_or_share(method: str, value: float) -> bool:
    """Whether a value lies where its metric's method needs it."""
    return -1 < value < 1 if method == "correlation" else 0 <= value <= 1


def limits(method: str, value: float, resampled: Floats, groups: int, level: float, freedom: int, units: int) -> Limits:
    """The interval of one value.

    Args:
        method: of METHODS but `own` and `none`.
        value: in the sample.
        resampled: in every resample, NaN where undefined.
        groups: scored ones.
        level: for instance .95.
        freedom: degrees of freedom of the standard error.
        units: independent ones, where nothing varies.
    """
    error, q = standard_error(resampled, groups), critical(level, max(1, freedom))
    if method in ("t", "correlation") or not correlation_or_share(method, value):
        if error <= FLAT:
            return Limits(why_none="every resample gives the same value")
        fits = method == "correlation" and correlation_or_share(method, value)
        return Limits(*(fisher_ends(value, error, q) if fits else around(value, error, q)))
    centre = value
    if method == "optimistic":
        centre = min(1.0, max(0.0, 2 * value - float(np.nanmean(resampled))))
    low, high = score_ends(centre, error, q, units)
    return Limits(min(low, value), max(high, value))
