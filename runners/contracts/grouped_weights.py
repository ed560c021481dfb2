"""Weights of rows in many resamples, stored as counts of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Weights:
    """Weights (B, n) of n rows in B resamples, stored as counts of groups; `weights @ column`."""

    counts: Floats
    """(B, G): how often each resample contains each group."""
    group: NDArray[np.int64]
    """(n,): group of each row, in 0..G-1."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.counts.shape[0], len(self.group)

    def __matmul__(self, columns: Floats) -> Floats:
        """Return weighted sums of a column, (n,) -> (B,), or of several, (n, m) -> (B, m)."""
        groups = self.counts.shape[1]
        sums = sum_by_code(columns if columns.ndim == 2 else columns[:, None], self.group, groups)
        return self.counts @ (sums[:, 0] if columns.ndim == 1 else sums)

    def sum_bins(self, column: Floats, bin_index: NDArray[np.int64], bins: int) -> Floats:
        """Return weighted sums of a column per bin, (B, bins); `bin_index` (n,) is -1 for no bin."""
        inside = bin_index >= 0
        cells = self.group[inside] * bins + bin_index[inside]
        return self.counts @ np.bincount(cells, column[inside], self.counts.shape[1] * bins).reshape(-1, bins)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.counts[:, self.group].astype(dtype or np.float64, copy=False)

    def rows(self, chosen: NDArray[Any]) -> Weights:
        """Return the weights (B, chosen rows), in all resamples; `chosen` is a mask or indices."""
        return Weights(self.counts, self.group[chosen])


def sum_by_code(columns: Floats, codes: NDArray[np.int64], count: int) -> Floats:
    """Return the sums of columns (n, m) over rows with the same code (n,): (count, m)."""
    width = columns.shape[1]
    places = codes if width == 1 else (codes[:, None] * width + np.arange(width)).ravel()
    return np.bincount(places, columns.ravel(), count * width).astype(np.float64, copy=False).reshape(count, width)


def number_groups(group: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (n,) index of each row's group among sorted distinct ones, and (groups,) sizes.

    >>> [part.tolist() for part in number_groups(np.array([7, 2, 7]))]
    [[1, 0, 1], [1, 2]]
    """
    if not len(group) or group.min() < 0 or group.max() > 16 * len(group) + 65_536:  # numbers far apart
        _, place, rows = np.unique(group, return_inverse=True, return_counts=True)
        return place.astype(np.int64), rows.astype(np.int64)
    counts = np.bincount(group)
    there = counts > 0
    return (np.cumsum(there) - 1)[group], counts[there]


def sum_bins(weights: Weights | Floats, column: Floats, bin_index: NDArray[np.int64], bins: int) -> Floats:
    """Return weighted sums of a column per bin, (B, bins); `bin_index` (n,) is -1 for no bin."""
    if isinstance(weights, Weights):
        return weights.sum_bins(column, bin_index, bins)
    sums: Floats = weights @ (column[:, None] * (bin_index[:, None] == np.arange(bins)))
    return sums
