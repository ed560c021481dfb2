"""Uncertainty estimators: what one generation says of how sure the model was.

The contract of a plugin `NAME.py`:

    NEEDS = ["token_logprobs"]       # the columns it reads, so that the compiler knows without a model

    def NAME(token_logprobs: Rows, *, parameter: type = default) -> Floats

- Positional arguments are named after columns of GENERATIONS (`registry/sample.py`), of the greedy draw. A list column
  comes as a list of n float64 arrays, text as a list of n strings, a number as a float64 array (n,).
- Rows that lack one of these columns are not handed over; their value is null and counted.
- The result is (n,) float64, HIGHER = MORE UNCERTAIN, NaN where undefined (an empty generation has no mean), +inf allowed.
- Multiple-choice rows hold the one token of the answer's letter, so sequence measures are over that token.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows: TypeAlias = list[Floats]


def sums(rows: Rows) -> tuple[Floats, Floats]:
    """Sum and length of every row."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    flat = np.concatenate(rows) if len(rows) else np.empty(0)
    owner = np.repeat(np.arange(len(rows)), lengths)
    total: Floats = np.asarray(np.bincount(owner, flat, len(rows)), dtype=np.float64)
    return total, lengths.astype(np.float64)


def means(rows: Rows) -> Floats:
    """Mean of every row, NaN of an empty one."""
    total, length = sums(rows)
    result: Floats = np.divide(total, length, out=np.full(len(rows), np.nan), where=length > 0)
    return result
