"""Split conformal prediction: which rows calibrate, what threshold they give, which options it lets in.

Every decision that moves a published number is a named choice here; none is implied by a library's default.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from qualm.runners.data.calibration_split import Bools, Floats, Precision

SLACK = {"double": 1e-12, "single": 0.0}
"""Scores within this of the threshold are in the set: sums of a softmax miss equality. None in single precision, as published."""


@lru_cache(maxsize=65_536)
def order_statistic(n: int, alpha: float, quantile: str) -> int:
    """Which of n scores is the threshold, counted from 1; n + 1 where none is large enough.

    In whole numbers, with alpha as it is written: in floating point (n + 1)(1 - alpha) misses whole numbers, and its ceiling is one too
    large for .45, .7 or .85.

    >>> order_statistic(99, 0.45, "standard"), math.ceil(100 * (1 - 0.45))
    (55, 56)
    """
    # By way of its text: Fraction(0.1) is the binary number, a little more than a tenth.
    k = math.ceil((n + 1) * (1 - Fraction(str(alpha))))
    return k if quantile == "standard" or k > n else 1 + -(-(n - 1) * k // n)


def threshold(scores: Floats, alpha: float, quantile: Literal["standard", "numpy_higher"]) -> float:
    """The largest nonconformity that a set admits, from the calibration rows' scores of their right options.

    With k = ceil((n + 1)(1 - alpha)): `standard` is the k-th smallest score, which guarantees coverage of at least
    1 - alpha; `numpy_higher` is `np.quantile(scores, k / n, method="higher")`, what most released code uses: numpy
    counts the level from 0 to n - 1, so it is one order statistic too large for all but small n. +inf where k > n.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: expected a number between 0 and 1, got {alpha}")
    k = order_statistic(len(scores), alpha, quantile)
    return math.inf if k > len(scores) else float(np.partition(scores, k - 1)[k - 1])


def prediction_sets(
    scores: Floats, probs: Floats, limit: float | Floats, empty_set: Literal["argmax", "empty"], precision: Precision = "double"
) -> tuple[Bools, Bools]:
    """The options whose score is at most `limit`.

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
