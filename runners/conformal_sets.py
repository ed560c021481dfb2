"""Split conformal prediction: which rows calibrate, what threshold they give, which options it lets in.

Every decision that moves a published number is a named choice here; none is implied by a library's default.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SLACK = 1e-12
"""Scores within this of the threshold are in the set: sums of a softmax miss equality by rounding."""


def calibration_rows(groups: NDArray[np.int64], fraction: float, seed: int, split: Literal["groups", "rows"]) -> Bools:
    """Which rows calibrate.

    Args:
        groups: (n,) group code of each row, rows in the source's official order.
        fraction: share of the rows that calibrates, in (0, 1).
        seed: of the draw.
        split: `rows`: `sklearn.model_selection.train_test_split(rows, train_size=fraction, random_state=seed)`, as the
            authors of VLM-Uncertainty-Bench split; rows of one group may then fall on both sides. `groups`: whole
            groups in seeded random order until the share is met as nearly as it can be; no group is ever divided.

    Raises:
        ValueError: a side of the split would be empty.
    """
    n = len(groups)
    chosen = np.zeros(n, dtype=bool)
    if not 0 < fraction < 1:
        raise ValueError(f"calibration fraction: expected a number between 0 and 1, got {fraction}")
    if split == "rows":
        if not 1 <= math.floor(fraction * n) < n:
            raise ValueError(f"calibration fraction {fraction} of {n} rows leaves one side of the split empty; use more samples")
        from sklearn.model_selection import train_test_split

        chosen[train_test_split(np.arange(n), train_size=fraction, random_state=seed)[0]] = True
        return chosen
    codes, members = np.unique(groups, return_inverse=True)
    if len(codes) < 2:
        raise ValueError(f"all {n} rows are one group, so none is left to test on; use `split: rows` or more groups")
    order = np.random.default_rng(seed).permutation(len(codes))
    filled = np.cumsum(np.bincount(members)[order])
    taken = 1 + int(np.argmin(np.abs(filled[:-1] - fraction * n)))
    return np.isin(members, order[:taken])


def threshold(scores: Floats, alpha: float, quantile: Literal["standard", "numpy_higher"]) -> float:
    """The largest nonconformity that a set admits, from the calibration rows' scores of their right options.

    With k = ceil((n + 1)(1 - alpha)): `standard` is the k-th smallest score, which guarantees coverage of at least
    1 - alpha; `numpy_higher` is `np.quantile(scores, k / n, method="higher")`, what most released code uses: numpy
    counts the level from 0 to n - 1, so it is one order statistic too large for all but small n. +inf where k > n.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: expected a number between 0 and 1, got {alpha}")
    n = len(scores)
    k = math.ceil((n + 1) * (1 - alpha))
    if k > n:
        return math.inf
    if quantile == "numpy_higher":
        return float(np.quantile(scores, k / n, method="higher"))
    return float(np.partition(scores, k - 1)[k - 1])


def prediction_sets(scores: Floats, probs: Floats, limit: float, empty_set: Literal["argmax", "empty"]) -> tuple[Bools, Bools]:
    """The options whose score is at most `limit`.

    Args:
        scores: (n, K) nonconformity of every option, NaN where there is no such option.
        probs: (n, K) probabilities, NaN likewise.
        limit: threshold; +inf lets every option in.
        empty_set: what becomes of a set that no option entered: `argmax` puts the likeliest (first of equals) in it.

    Returns:
        (n, K) membership, and (n,) which sets were empty before that rule.
    """
    inside = scores <= limit + SLACK
    empty: Bools = np.asarray(~inside.any(axis=1) & ~np.isnan(probs).all(axis=1))
    if empty_set == "argmax" and empty.any():
        rows = np.flatnonzero(empty)
        inside[rows, np.nan_to_num(probs[rows], nan=-1.0).argmax(axis=1)] = True
    return inside, empty
