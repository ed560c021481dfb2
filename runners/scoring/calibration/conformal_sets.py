"""Split conformal prediction: the threshold that calibration rows give, and the options that it lets in.

Every decision that moves a published number is a named choice here; none is implied by a library's default.

Split conformal prediction counts calibration rows as exchangeable with a test row. Rows of one group (questions on one image) are not
exchangeable with a row of a new group. There whole groups are the exchangeable units, and each row counts 1 / (rows of its group):
hierarchical conformal prediction, Lee, Barber, Willett, Distribution-free inference with hierarchical data, 2023.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from qualm.runners.data.calibration_split import Bools, Floats, Precision

Ints = NDArray[np.int64]
SUM_TOLERANCE = 1e-9
"""Sums of row shares miss equality by rounding; a sum this close reaches what is required."""
SLACK = {"double": 1e-12, "single": 0.0}
"""Scores within this of the threshold are in the set: sums of a softmax miss equality. None in single precision, as published."""


@lru_cache(maxsize=65_536)
def order_statistic(n: int, alpha: float, quantile: str) -> int:
    """Return the rank of the threshold among n scores, from 1; n + 1 if none is large enough.

    In whole numbers, with alpha as it is written: in floating point (n + 1)(1 - alpha) misses whole numbers, and its ceiling is one too
    large for .45, .7 or .85.

    >>> order_statistic(99, 0.45, "standard"), math.ceil(100 * (1 - 0.45))
    (55, 56)
    """
    # By way of its text: Fraction(0.1) is the binary number, a little more than a tenth.
    k = math.ceil((n + 1) * (1 - Fraction(str(alpha))))
    return k if quantile == "standard" or k > n else 1 + -(-(n - 1) * k // n)


@lru_cache(maxsize=65_536)
def required_sum(units: int, alpha: float, quantile: str) -> float:
    """Return how many units, maybe fractional, must score at or below the threshold.

    It is (units + 1)(1 - alpha), or for `numpy_higher` the rank of `order_statistic`.
    """
    return float((units + 1) * (1 - Fraction(str(alpha)))) if quantile == "standard" else float(order_statistic(units, alpha, quantile))


def fewest_units(alpha: float) -> int:
    """Return the smallest number of units that have a threshold: ceil(1 / alpha) - 1.

    >>> fewest_units(0.1), fewest_units(0.05)
    (9, 19)
    """
    return math.ceil(1 / Fraction(str(alpha))) - 1


def units_of(groups: Ints, setting: Mapping[str, Any]) -> Ints:
    """Return (n,) unit codes: rows for `split: rows` or `quantile: numpy_higher`, else groups.

    The rows of a random `split: rows` are exchangeable whatever their groups. `quantile: numpy_higher` counts rows, as published code does.
    """
    by_row = setting["calibration"]["split"] == "rows" or setting["quantile"] != "standard"
    return np.arange(len(groups)) if by_row else groups


def shares(units: Ints) -> Floats:
    """Return (n,) weights of the rows: 1 / (number of rows of the same unit)."""
    _, place, size = np.unique(units, return_inverse=True, return_counts=True)
    return np.asarray(1 / size[place], dtype=np.float64)


def threshold(scores: Floats, alpha: float, quantile: Literal["standard", "numpy_higher"], units: Ints | None = None) -> float:
    """Return the largest nonconformity that a set admits; +inf with too few calibration units.

    `standard`, of n rows that are units of their own: the k-th smallest score, k = ceil((n + 1)(1 - alpha)). It guarantees coverage of at
    least 1 - alpha for a test row that is exchangeable with these rows.

    `standard`, of K units with several rows: the 1 - alpha quantile of the distribution that gives a row mass 1 / (K + 1) / (rows of its
    unit), and infinity mass 1 / (K + 1). It guarantees coverage of at least 1 - alpha for a row drawn at random from a new unit that is
    exchangeable with these: the mean over units, each of which counts once. The share of all rows that is covered can be lower where
    larger units have worse scores.

    `numpy_higher`: `np.quantile(scores, k / n, method="higher")`, what most released code uses. numpy counts the level from 0 to n - 1,
    so it is one order statistic too large for all but small n.

    `scores` are (n,), and `units` (n,) the code of each row's exchangeable unit; None = each row is one.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: expected a number between 0 and 1, got {alpha}")
    share = np.ones(len(scores)) if units is None else shares(units)
    order = np.argsort(scores, kind="stable")
    required = required_sum(round(float(share.sum())), alpha, quantile)
    place = int(np.searchsorted(np.cumsum(share[order]), required - SUM_TOLERANCE))
    return math.inf if place == len(scores) else float(scores[order[place]])


def prediction_sets(
    scores: Floats, probs: Floats, limit: float | Floats, empty_set: Literal["argmax", "empty"], precision: Precision = "double"
) -> tuple[Bools, Bools]:
    """Return ((n, K) set membership, (n,) sets that were empty before `empty_set` applied).

    Args:
        scores: (n, K) nonconformity of every option, NaN where there is no such option.
        probs: (n, K) probabilities, NaN likewise.
        limit: threshold, or (n, K) one of each option; +inf lets every option in.
        empty_set: what becomes of a set that no option entered: `argmax` puts the best-scored option in it, which is the likeliest;
            of equals the first.
        precision: what the probabilities are in.

    Returns:
        (n, K) membership, and (n,) which sets were empty before that rule.
    """
    inside = scores <= limit + SLACK[precision]
    empty: Bools = np.asarray(~inside.any(axis=1) & ~np.isnan(probs).all(axis=1))
    if empty_set == "argmax" and empty.any():
        rows = np.flatnonzero(empty)
        # By score and not by probability: with a penalised or randomised score, the likeliest option need not be the best.
        best = scores[rows] == np.nanmin(scores[rows], axis=1, keepdims=True)
        inside[rows, np.where(best, probs[rows], -1.0).argmax(axis=1)] = True
    return inside, empty
