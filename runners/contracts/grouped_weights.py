"""Weights of rows in many resamples, stored as counts of groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FEW = 16_384
"""Size up to which one call sums all columns, as calls then cost more than additions."""


@dataclass(frozen=True)
class Weights:
    """(B, n) weights for `weights @ column`; `np.asarray(weights)` is the full matrix."""

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
        if columns.ndim == 1:
            return self.counts @ np.bincount(self.group, columns, groups)
        width = columns.shape[1]
        cells = (self.group[:, None] * width + np.arange(width)).ravel()
        return self.counts @ np.bincount(cells, columns.ravel(), groups * width).reshape(groups, width)

    def sum_products(self, left: NDArray[Any], right: NDArray[Any]) -> Floats:
        """Return weighted sums of the real part of each product of two columns: (n, l), (n, r) -> (B, l * r)."""
        return self @ products(left, right)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.counts[:, self.group].astype(dtype or np.float64, copy=False)

    def rows(self, chosen: NDArray[Any]) -> Weights:
        """Return the weights of some of the rows."""
        return Weights(self.counts, self.group[chosen])

    def each_group_sum(self, columns: Floats) -> Iterator[Floats]:
        """Yield each column's unweighted sums over groups, (G,)."""
        groups, width = self.counts.shape[1], columns.shape[1]
        if columns.size > FEW:
            return (np.asarray(np.bincount(self.group, column, groups), dtype=np.float64) for column in columns.T)
        cells = (np.arange(width)[:, None] * groups + self.group).ravel()
        return iter(np.bincount(cells, columns.T.ravel(), groups * width).astype(np.float64).reshape(width, groups))


def number_groups(group: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the place of each row's group among the distinct groups in ascending order, and the number of rows of each group.

    >>> [part.tolist() for part in number_groups(np.array([7, 2, 7]))]
    [[1, 0, 1], [1, 2]]
    """
    if not len(group) or group.min() < 0 or group.max() > 16 * len(group) + 65_536:  # numbers far apart
        _, place, rows = np.unique(group, return_inverse=True, return_counts=True)
        return place.astype(np.int64), rows.astype(np.int64)
    counts = np.bincount(group)
    there = counts > 0
    return (np.cumsum(there) - 1)[group], counts[there]


def products(left: NDArray[Any], right: NDArray[Any]) -> Floats:
    """Return the real part of each product of two columns: (n, l), (n, r) -> (n, l * r)."""
    real: Floats = left.real[:, :, None] * right.real[:, None, :]
    if np.iscomplexobj(left) and np.iscomplexobj(right):
        real -= left.imag[:, :, None] * right.imag[:, None, :]
    return real.reshape(len(left), left.shape[1] * right.shape[1])


def sum_products(weights: Weights | Floats, left: NDArray[Any], right: NDArray[Any]) -> Floats:
    """Return `weights @ products(left, right)`, (B, l * r), without making the products where weights can do without."""
    return weights.sum_products(left, right) if isinstance(weights, Weights) else weights @ products(left, right)
