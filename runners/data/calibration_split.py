"""Split of rows into calibration and test."""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Bools = NDArray[np.bool_]


def calibration_rows(groups: NDArray[np.int64], fraction: float, seed: int, split: Literal["groups", "rows"]) -> Bools:
    """Return a mask (n,) of the rows to calibrate on; the others are test rows.

    Args:
        groups: (n,) group code of each row, rows in the source's official order.
        fraction: share of the calibration rows, in (0, 1).
        split: `rows`: `sklearn.model_selection.train_test_split(rows, train_size=fraction, random_state=seed)`, as the
            authors of VLM-Uncertainty-Bench split; rows of one group may then fall on both sides. `groups`: whole
            groups in seeded random order until the share is as close as possible.

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


Precision = Literal["double", "single"]
