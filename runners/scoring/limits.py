"""Intervals of values, by the method that each metric declares.

The standard error is the larger of that of the bootstrap and that of the jackknife, both over whole groups. Student's t has one degree of
freedom less than the effective number of groups (Satterthwaite, 1946; with a jackknife as MacKinnon, Nielsen, Webb, 2023, advise for
uneven groups): normal quantiles and percentiles are too narrow up to some fifty groups (Cameron, Gelbach, Miller, 2008).

- `t`: sums, means, differences; value -+ t SE.
- `proportion`: what lies in [0, 1], accuracy and AUROC alike; Wilson's score interval with as many units as would give that SE (Korn,
  Graubard, 1998; of AUROC Newcombe, 2006).
- `optimistic`: in [0, 1], the largest on the rows themselves; the same around the value less its bias over resamples, with the root mean
  square of resamples around the value, which has that bias in it, for standard error. The jackknife does not hold for a maximum.
- `skewed`: the outer ends of `t` and of the percentiles of resamples, not below 0: of what has a bound that most samples are at, as sets
  of one option.
- `correlation`: Fisher's z.
- `own`: what its plugin's function `interval` gives.
- `none`: of what no method here is known to hold; its plugin's `why_no_interval` says why.

Near 0 and 1 few rows carry the spread, and resamples of a lucky sample show too little of it. A metric may state a lower bound of its
standard error, that of independent rows, by a function `minimum_standard_error`. Bounded means whose rare outcomes are not seen:
`qualm.runners.scoring.measuring.bounded_means`.

Only groups with a row in the value's denominator count. Below MIN_GROUPS of them, by their sizes, there is no interval.

No end leaves what the metric can be (its plugin's function `bounds`; [0, 1] and [-1, 1] of shares and correlations): see `within`.

How often each holds the truth: docs/explanation/statistics.md.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Floats, number_groups

METHODS = ("t", "proportion", "optimistic", "skewed", "correlation", "own", "none")
MIN_GROUPS = 5
"""Least number of independent groups, of each class where a metric compares classes; with fewer, t and the standard error are guesses."""
RARE = 3.0
"""Events up to which Wilson's interval is modified."""
FLAT = 1e-12
Bounds = tuple[float, float]
"""The lowest and the highest value that there can be."""
UNBOUNDED: Bounds = (-math.inf, math.inf)
BOUNDS: Mapping[str, Bounds] = {"proportion": (0.0, 1.0), "optimistic": (0.0, 1.0), "correlation": (-1.0, 1.0)}


@dataclass(frozen=True)
class Limits:
    """Interval of one value; both ends NaN and a reason in `why_none` if there is none."""

    low: float = math.nan
    high: float = math.nan
    why_none: str = ""


def clip_to_bounds(interval: Limits, value: float, bounds: Bounds) -> Limits:
    """Return the interval within bounds, containing `value`; `why_none` if it has no width.

    >>> clip_to_bounds(Limits(0.9, 2.3), 1.1, (1.0, 2.0)), clip_to_bounds(Limits(0.4, 1.2), 1.0, UNBOUNDED)
    (Limits(low=1.0, high=2.0, why_none=''), Limits(low=0.4, high=1.2, why_none=''))
    """
    low, high = min(value, max(interval.low, bounds[0])), max(value, min(interval.high, bounds[1]))
    return Limits(low, high) if high - low > FLAT else Limits(why_none="there is only one value that it can have")


def difference_bounds(bounds: Bounds) -> Bounds:
    """Return the bounds of the difference of two values with these bounds."""
    return bounds[0] - bounds[1], bounds[1] - bounds[0]


@lru_cache(maxsize=4096)
def critical(level: float, freedom: float) -> float:
    """Return the two-sided critical value of Student's t at a confidence level.

    >>> round(critical(0.95, 9), 3), round(critical(0.95, math.inf), 3)
    (2.262, 1.96)
    """
    from scipy.special import ndtri, stdtrit

    return float(ndtri((1 + level) / 2) if math.isinf(freedom) else stdtrit(freedom, (1 + level) / 2))


def quantile(values: Floats, share: float) -> float:
    """Return a quantile ignoring NaN, as `np.nanquantile` but faster; NaN if nothing is left.

    >>> quantile(np.array([3.0, 1.0, 2.0, np.nan]), 0.25)
    1.5
    """
    defined = values[~np.isnan(values)]
    place = (len(defined) - 1) * share
    low = math.floor(place)
    if not len(defined) or low == place:
        return float(np.quantile(defined, share)) if len(defined) else math.nan
    part = np.partition(defined, (low, low + 1))
    below, above, rest = float(part[low]), float(part[low + 1]), place - low
    # numpy interpolates from the nearer end, and equality to the bit is promised.
    return above - (above - below) * (1 - rest) if rest >= 0.5 else below + (above - below) * rest


def standard_error(resampled: Floats, groups: float) -> float:
    """Return the standard error from resamples, scaled for few `groups`; NaN if all are NaN."""
    defined = resampled[~np.isnan(resampled)]
    if not len(defined):
        return math.nan
    off = _centred(defined)
    return math.sqrt(float(off @ off) / len(off) * groups / max(1.0, groups - 1))


def effective_units(group: NDArray[np.int64]) -> float:
    """Return the effective number of groups, by the number of rows with each group code.

    It is (sum of sizes)^2 / sum of sizes^2 (Kish, 1965), the number of groups where these are equal. Answers of one group that all agree
    count as one of this many.

    >>> effective_units(np.array([0, 0, 1, 1])), effective_units(np.array([0, 0, 0, 1]))
    (2.0, 1.6)
    """
    sizes = number_groups(group)[1].astype(np.float64)
    return float(sizes.sum() ** 2 / max(1.0, (sizes**2).sum()))


def effective_groups(influences: Floats, log_variance_slope: float = 0.0) -> float:
    """Return 1 + the degrees of freedom of a standard error, from each group's influence.

    Degrees of freedom of its Student's t are by Satterthwaite's rule (1946): twice the inverse of the variance estimate's
    squared coefficient of variation, here of the influences' own spread (as of a sample variance: O'Neill, 2014). Normal influences of
    equal spread give all n groups, a rare class or uneven groups fewer. All n where no influence differs from the mean.

    `influences` (n,) is the change of the value with each group, for instance the value less its values with each group deleted.
    `log_variance_slope` is the derivative, by the value, of the logarithm of the variance that is expected at that value; the degrees of
    freedom are then those of the ratio of the two, the design effect: of independent rows it is known, and n groups are n.

    >>> effective_groups(np.array([1.0, -1.0, 1.0, -1.0])), round(effective_groups(np.array([6.0] + 99 * [0.0])), 2)
    (4.0, 3.06)
    """
    n, off = len(influences), _centred(influences)
    # A spread of rounding errors is none.
    if n < 2 or max(off.max(), -off.min()) <= FLAT * max(1.0, influences.max(), -influences.min()):
        return float(n)
    squares = off * off
    total = float(squares.sum())
    # Sum over influences of (square / total - 1 / n - log_variance_slope * off)^2, where squares / total sum to 1 and off to 0.
    variation = (
        float(squares @ squares) / total**2 - 1 / n - 2 * log_variance_slope * float(squares @ off) / total + log_variance_slope**2 * total
    )
    return 1 + min(n - 1.0, 2 / (variation + 2 / (n * (n - 1))))


def jackknife_error(deleted: Floats) -> float:
    """Return the standard error from values with each group deleted (Quenouille, 1956)."""
    n, off = len(deleted), _centred(deleted)
    return math.sqrt((n - 1) / n * float(off @ off))


def _centred(values: Floats) -> Floats:
    """Return the deviations of the values from their mean."""
    # `np.mean` takes several times as long for so few numbers.
    off: Floats = values - np.add.reduce(values) / len(values)
    return off


def exchange_deviate(size: Any, error: Any, units: Any) -> Any:
    """Return a difference's normal deviate if each group's two sides are exchanged at random.

    Arrays are taken element by element. Under exchanges the difference varies around 0 by its groups' mean square:
    size / sqrt(error^2 + size^2 / units), with its absolute size, its standard error and the effective number of groups.

    >>> round(float(exchange_deviate(0.2, 0.0, 9)), 3)
    3.0
    """
    return size / np.sqrt(error**2 + size**2 / units)


def symmetric_interval(value: float, error: float, q: float) -> tuple[float, float]:
    """Return the (low, high) interval value -+ q * error; `q`: critical value."""
    return value - q * error, value + q * error


def wilson_interval(value: float, error: float, q: float, units: float) -> tuple[float, float]:
    """Return a share's Wilson interval (1927); `q`: critical value; `units` for error 0.

    It holds the shares p with |value - p| <= q sqrt(p (1 - p) / m).

    m is how many independent units would have that error, value (1 - value) / error^2. Where nothing varies (all right, none right)
    that is unknown, and m = `units`, the number of independent groups: certainly not more of them were seen to agree. Of up to RARE events
    the end at their side is the lower limit of a Poisson mean, if that lies farther out: Wilson's does not hold there (Brown, Cai,
    DasGupta, 2001, who modify it so).

    >>> [round(end, 3) for end in wilson_interval(0.9, 0.03, 1.96, 100)], [round(end, 3) for end in wilson_interval(1.0, 0.0, 1.96, 100)]
    ([0.826, 0.945], [0.963, 1.0])
    """
    varies = value * (1 - value)
    m = varies / error**2 if error > FLAT and varies > FLAT else units
    share = q * q / m
    centre, half = (value + share / 2) / (1 + share), math.sqrt(share * (varies + share / 4)) / (1 + share)
    low, high = min(value, centre - half), max(value, centre + half)
    return max(0.0, min(low, _poisson_lower_limit(value, q, m))), min(1.0, max(high, 1 - _poisson_lower_limit(1 - value, q, m)))


def _poisson_lower_limit(share: float, q: float, units: float) -> float:
    """Return the Poisson lower limit of a share of at most RARE events; 1.0 if more or none."""
    from scipy.special import gammaincinv, ndtr

    events = share * units
    return float(gammaincinv(events, 2 * ndtr(-q))) / units if share < 1 and 0 < events <= RARE * (1 + FLAT) else 1.0


def fisher_interval(value: float, error: float, q: float) -> tuple[float, float]:
    """Return a correlation's (low, high) interval by Fisher's z (1921); `q`: critical value."""
    z = math.atanh(value)
    # The delta method: atanh has the derivative 1 / (1 - value^2).
    low, high = symmetric_interval(z, error / (1 - value**2), q)
    return math.tanh(low), math.tanh(high)


def is_in_range(method: str, value: float) -> bool:
    """Return whether a value lies in (-1, 1) for method `correlation`, else in [0, 1]."""
    return -1 < value < 1 if method == "correlation" else 0 <= value <= 1


def limits(
    method: str,
    value: float,
    resampled: Floats,
    deleted: Floats,
    units: float,
    level: float,
    calibrating: int | None = None,
    minimum_standard_error: Callable[[float], float] | None = None,
) -> Limits:
    """Return the interval of one value by its metric's method, or why there is none.

    Args:
        method: One of METHODS; `own` is `t` for a mean of values that have an interval of their own each.
        value: In the sample.
        resampled: In every resample, NaN where undefined.
        deleted: With each part of the groups deleted; empty if unknown.
        units: Effective number of groups that enter.
        level: For instance .95.
        calibrating: Groups that thresholds or fits are drawn from in every resample.
        minimum_standard_error: Smallest possible standard error, by the value.
    """
    error = standard_error(resampled, units if calibrating is None else min(units, calibrating))
    if calibrating is None and len(deleted) and method != "optimistic":
        error = max(error, jackknife_error(deleted))
    # A share beyond [0, 1] is not one by Wilson's formula: such a metric falls back on t.
    share = method in ("proportion", "optimistic") and is_in_range(method, value)
    freedom = degrees_of_freedom(value, deleted, units, share)
    q = critical(level, max(1.0, freedom if calibrating is None else freedom + calibrating - 1))
    if not share:
        if error <= FLAT:
            return Limits(why_none="every resample gives the same value")
        if method == "correlation" and is_in_range(method, value):
            return Limits(*fisher_interval(value, error, q))
        low, high = symmetric_interval(value, error, q)
        if method == "skewed":
            outer = [quantile(resampled, share) for share in ((1 - level) / 2, (1 + level) / 2)]
            # Not below 0, unless the value itself is.
            low, high = max(min(low, float(outer[0])), min(value, 0.0)), max(high, float(outer[1]))
        return Limits(low, high)
    centre = value
    if method == "optimistic":
        # What the largest of a sample gains by chance, its resamples gain once more: the second gain estimates the first.
        bias = float(np.nanmean(resampled)) - value
        centre = min(1.0, max(0.0, value - bias))
        error = math.hypot(error, bias)
    if minimum_standard_error is not None:
        error = max(error, minimum_standard_error(centre))
    low, high = wilson_interval(centre, error, q, units)
    # Around a centre that was moved the interval might miss the value that it is printed beside.
    return Limits(min(low, value), max(high, value))


def degrees_of_freedom(value: float, deleted: Floats, units: float, share: bool) -> float:
    """Return the degrees of freedom of an error over groups; of a share's design effect."""
    if not len(deleted):
        return units - 1
    slope = (1 - 2 * value) / (value * (1 - value)) if share and 0 < value < 1 else 0.0
    return min(units, effective_groups(value - deleted, slope)) - 1
