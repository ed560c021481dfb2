"""The range in which coverage is to be expected over draws, and what is guaranteed of it.

With n calibration rows that are exchangeable with the test rows, coverage given the threshold is Beta(k, n + 1 - k) distributed (Vovk,
2012), so that the number of covered test rows is Beta-binomial: the band in which coverage is to be expected. Rows of one group count
as fewer. The number of test rows is divided by the design effect of being covered (Kish, 1965). Groups that calibrate count 1 / (rows)
each per row, so they count as s(1 - s) / (variance of a group's coverage) independent rows each, s being the mean coverage of a group:
1 where a group's rows are all alike, its number of rows where they are independent.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from qualm.runners.data.aligned import Samples
from qualm.runners.data.calibration_split import Floats
from qualm.runners.scoring.calibration.conformal_sets import SUM_TOLERANCE, Ints, fewest_units, order_statistic, required_sum

LEVEL = 0.95
Unit = Literal["question", "group", "split", "none"]
"""Exchangeable unit: questions, groups, questions of a random split despite groups, or none."""
UNITS: Mapping[Unit, str] = {"group": "groups of questions", **dict.fromkeys(("question", "split", "none"), "questions")}


def exchangeable_unit(samples: Samples, setting: Mapping[str, Any]) -> Unit:
    """Return what is exchangeable under a setting: "question", "split", "group" or "none"."""
    groups = samples.groups[samples.n_options > 0]
    if len(np.unique(groups)) == len(groups):
        return "question"
    if setting["calibration"]["split"] == "rows":
        return "split"
    return "group" if setting["quantile"] == "standard" else "none"


@dataclass(frozen=True)
class Band:
    """95% range of test coverage under the guarantee, with its effective sample sizes."""

    target: float
    low: float
    high: float
    calibration: float
    """Independent rows that the calibration rows count as."""
    test: float
    promise: str = ""


def describe_guarantee(unit: Unit, coverage_band: Band, is_clean: bool = True, shared_by_part: str = "", mean: float | None = None) -> str:
    """Return the conformal guarantee as one sentence, or why nothing is promised.

    `shared_by_part` is what questions of a part are alike in, where each part has a threshold of its own, and `mean` the mean coverage of
    the groups, where it can differ from the share of questions that is covered.
    """
    if not is_clean:
        return "nothing is promised: calibrated on clean inputs"
    if unit == "none":
        return "nothing is promised: `quantile: numpy_higher` counts the questions of a group as independent"
    given = f" given the {shared_by_part}" if shared_by_part else ""
    these = "these of the same part" if shared_by_part else "these"
    here = "" if mean is None else f" (here {mean:.3f})"
    over = {
        "question": f"on average over draws of calibration questions that are exchangeable with {these}",
        "group": f"for a question drawn at random from a new group, each group counting once{here}, on average over draws of calibration "
        f"groups that are exchangeable with {these}",
        "split": "on average over random splits of these questions, whose groups are on both sides; not for questions of a new group",
    }
    return (
        f"at least {coverage_band.target:g}{given} {over[unit]}; "
        f"effective sample size: {coverage_band.calibration:.0f} for calibration, {coverage_band.test:.0f} for testing"
    )


def design_effect(covered: Floats, group: Ints) -> float:
    """Return the design effect, at least 1; mean group size if all rows agree or one group."""
    sizes = np.bincount(group)
    groups, n, share = int((sizes > 0).sum()), len(covered), float(covered.mean())
    if not 0 < share < 1 or groups < 2:
        return n / groups
    sums = np.bincount(group, covered - share)
    # The variance of the sum as it is over that of independent rows.
    return max(1.0, groups / (groups - 1) * float((sums**2).sum()) / (n * share * (1 - share)))


def group_means(covered: Floats, group: Ints) -> tuple[Floats, Ints]:
    """Return (mean coverage (groups,), number of rows (groups,)) of groups that have rows."""
    sizes = np.bincount(group)
    there = sizes > 0
    return np.bincount(group, covered)[there] / sizes[there], sizes[there]


def independent_rows(covered: Floats, group: Ints) -> float:
    """Return how many independent rows a group is worth: 1 up to the harmonic mean size."""
    means, sizes = group_means(covered, group)
    share = float(means.mean())
    if not 0 < share < 1 or len(means) < 2:
        return 1.0
    most = 1 / float((1 / sizes).mean())
    return max(1.0, share * (1 - share) / max(float(means.var(ddof=1)), share * (1 - share) / most))


def band(alpha: float, quantile: str, sizes: Sequence[tuple[int, int]], effect: float, each: float | None = None) -> Band:
    """Return the 95% Beta-binomial range of test coverage, over all question parts in sum.

    `sizes` of each part are the exchangeable units that calibrate and the rows that test. `effect` test rows say as much as one independent
    row, and a calibrating unit as much as `each` (by default 1 / `effect`).

    >>> found = band(0.1, "standard", [(1000, 1000)], 1.0)
    >>> found.low, found.high
    (0.873, 0.925)
    """
    each = 1 / effect if each is None else each
    chance = np.ones(1)
    for units, test in sizes:
        least = 1 if len(sizes) == 1 else 0
        rows = max(least, round(test / effect))
        # Without a threshold everything is covered for certain: a unit mass at the last place.
        alone = units < fewest_units(alpha)
        chance = np.convolve(chance, np.eye(rows + 1)[rows] if alone else _covered(rows, units, each, alpha, quantile))
    rows, summed = len(chance) - 1, np.cumsum(chance)
    low, high = (int(np.searchsorted(summed, tail)) for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    target, units, test = float(1 - Fraction(str(alpha))), sum(units for units, _ in sizes), sum(test for _, test in sizes)
    return Band(target, low / max(1, rows), min(high, rows) / max(1, rows), units * each, test / effect)


def _covered(rows: int, units: int, each: float, alpha: float, quantile: str) -> Floats:
    """Return (rows + 1,) chances that 0 to `rows` are covered; `each`: rows a unit is worth."""
    from scipy.special import gammaln

    k, n = float(order_statistic(units, alpha, quantile)), float(units)
    if each > 1:
        # Scores of a group differ, so the threshold falls within a group.
        n = units * each
        k = min(n, math.ceil(each * required_sum(units, alpha, quantile) - SUM_TOLERANCE))
    # Beta(k, n + 1 - k) with n shrunk to the effective number; its mean k / (n + 1) stays.
    drawn = units * each
    a = (drawn + 1) * k / (n + 1)
    b = drawn + 1 - a
    x = np.arange(rows + 1)
    # In logarithms: the Gamma function of a thousand overflows.
    log = gammaln(rows + 1) - gammaln(x + 1) - gammaln(rows - x + 1) + gammaln(x + a) + gammaln(rows - x + b) - gammaln(rows + a + b)
    chance: Floats = np.exp(log + gammaln(a + b) - gammaln(a) - gammaln(b))
    return chance
