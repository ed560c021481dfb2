"""Intervals of means whose rare events the sample may not hold: losses of sure answers, accuracies of rare types.

A standard error over what was seen is too small where the unseen would matter: of a hundred sure answers without an error it is 0. So the
mean is split into parts with an interval each, Wilson's for shares of events and Student's t for what is known of every row, and the
distances of their ends are combined as those of independent estimates (MOVER: Zou, Donner, 2008; of proportions Newcombe, 1998). Where
groups make the parts vary together, the distances grow by the ratio of the two standard errors, with and without that.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Floats, number_groups
from qualm.runners.scoring.limits import FLAT, critical, effective_groups, wilson_interval

STRATA = 5
"""Strata of rows by what their outcome decides over: each spans a factor of 2, the last all that is smaller."""
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class BoundedMean:
    """A weighted mean of outcomes in [0, 1], with its interval."""

    value: float
    low: float
    high: float
    influences: Floats
    """(groups,) Each group's part in the difference from the mean; their squares add up to the variance."""


def weighted_share(outcomes: Floats, weights: Floats, group: Ints, groups: int, level: float) -> BoundedMean:
    """Return the weighted mean of outcomes with Wilson's interval, by a group jackknife.

    Where nothing varies, as many units are seen to agree as the groups' weights are worth (Kish, 1965).

    `outcomes` (n,) are from 0 to 1, `weights` (n,) positive, and `group` (n,) from 0 to groups - 1.
    """
    weights = weights / weights.sum()
    value = float(np.clip(weights @ outcomes, 0.0, 1.0))
    of_group = np.bincount(group, weights, groups)
    influences: Floats = np.bincount(group, weights * (outcomes - value), groups).astype(np.float64)
    units = 1 / float((of_group**2).sum())
    # Of a single group no other is left.
    deleted = influences / np.maximum(1 - of_group, 1 / 2)
    low, high = wilson_interval(value, float(np.linalg.norm(deleted)), critical(level, max(1.0, units - 1)), units)
    return BoundedMean(value, low, high, influences)


def mean_loss_interval(losses: Floats, least: Floats, most: Floats, group: Ints, level: float) -> tuple[float, float]:
    """Return the (low, high) interval of a mean loss, where each loss has known bounds.

    A loss is its lower bound and a share of the distance of its bounds, 1 or 0 where an answer is right or wrong. Rows are put into strata
    of similar distances, so that the many outcomes that decide over little do not speak for the few that decide over much. Within a
    stratum the share has Wilson's interval, and the mean loss that is expected at each row's bounds has that of Student's t.

    `losses`, `least`, `most` (the largest possible one, finite) and `group` are (n,).

    >>> low, high = mean_loss_interval(np.full(50, 0.01), np.full(50, 0.01), np.full(50, 0.81), np.arange(50), 0.95)
    >>> round(low, 3), round(high, 3)
    (0.01, 0.07)
    """
    place = number_groups(group)[0]
    n, groups = len(losses), int(place.max()) + 1
    # A partial rating may cost less than either end.
    least, most = np.minimum(least, losses), np.maximum(most, losses)
    reach, expected = most - least, least.astype(np.float64)
    largest = float(reach.max())
    strata = np.full(n, -1)
    if largest > 0:
        strata = np.where(reach > 0, np.clip(-np.log2(np.maximum(reach / largest, 1e-300)), 0, STRATA - 1).astype(np.int64), -1)
    down, up, influences = [], [], []
    for stratum in np.unique(strata[strata >= 0]):
        rows = strata == stratum
        share = weighted_share((losses - least)[rows] / reach[rows], reach[rows], place[rows], groups, level)
        scale = float(reach[rows].sum()) / n
        down.append(scale * (share.value - share.low))
        up.append(scale * (share.high - share.value))
        influences.append(scale * share.influences)
        expected[rows] += reach[rows] * share.value
    mean = float(losses.mean())
    known = np.bincount(place, expected - mean, groups) / n
    of_group = np.bincount(place, minlength=groups) / n
    deleted = known / np.maximum(1 - of_group, 1 / 2)
    units = min(effective_groups(deleted), 1 / float((of_group**2).sum()))
    half = critical(level, max(1.0, units - 1)) * float(np.linalg.norm(deleted))
    return combine_intervals(mean, [*down, half], [*up, half], np.array([*influences, known]))


def mean_gap_interval(confidence: Floats, correct: Floats, group: Ints, level: float) -> tuple[float, float]:
    """Return the (low, high) interval of accuracy minus mean confidence."""
    return mean_loss_interval(correct - confidence, -confidence, 1 - confidence, group, level)


def mean_of_types_interval(
    outcomes: Floats, weights: Floats, types: Floats, group: Ints, level: float, mean: Callable[[Floats], Floats]
) -> tuple[float, float]:
    """Return the (low, high) interval of a mean of shares, one share per type of row.

    `outcomes` (n,) are from 0 to 1, `weights` (n,) those of each row within its type, and `mean` gives (k,) means of (k, types) shares.
    """
    place = number_groups(group)[0]
    groups, names = int(place.max()) + 1, np.unique(types)
    chosen = [types == name for name in names]
    shares = [weighted_share(outcomes[rows], weights[rows], place[rows], groups, level) for rows in chosen]
    values, lows, highs = (np.array([getattr(share, end) for share in shares]) for end in ("value", "low", "high"))
    value = float(mean(values[None])[0])
    if not values.all() and value == 0:
        # A harmonic mean is 0 as long as any of its shares is.
        return 0.0, float(mean(highs[None])[0])
    moved_down, moved_up = (mean(np.where(np.eye(len(names), dtype=bool), ends, values)) for ends in (lows, highs))
    step = 1e-6
    slopes = (value - mean(values - step * values * np.eye(len(names)))) / (step * np.maximum(values, FLAT))
    influences = slopes[:, None] * np.array([share.influences for share in shares])
    return combine_intervals(value, value - moved_down, moved_up - value, influences)


def combine_intervals(value: float, down: Floats | list[float], up: Floats | list[float], influences: Floats) -> tuple[float, float]:
    """Return (low, high) of a sum: root sum of squared half-widths, wider if terms correlate.

    `down` and `up` (parts,) are the distances of each part's ends, and `influences` (parts, groups) those of each group on each part.
    """
    apart, together = float((influences**2).sum()), float((influences.sum(axis=0) ** 2).sum())
    # Parts that make up for each other are taken as independent, which is conservative.
    wider = math.sqrt(max(1.0, together / apart)) if apart > 0 else 1.0
    return value - wider * float(np.linalg.norm(down)), value + wider * float(np.linalg.norm(up))
