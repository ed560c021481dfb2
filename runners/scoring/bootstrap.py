"""Grouped bootstrap: weights of rows in many resamples, kept as counts of groups.

A metric over B resamples of n rows asks for sums `weights @ column`. Rows of one group enter and leave together, so
those sums need only each group's own sum and a (B, groups) matrix: thousands of resamples for the price of a few.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Floats, Weights, sum_by_code

BLOCK = 4_000_000
"""Resamples are handed out in blocks of at most this many (resample, row) pairs, so memory does not grow with n."""
JOINED = 4 * BLOCK
"""Counts of groups that are multiplied with sums at once."""
NO_WEIGHTS = "a metric that is `row_by_row` sums columns and looks at no weights; see registry/plugins/protocols.py"
MAX_DELETIONS = 200
"""Parts that a jackknife deletes one at a time."""


@dataclass(frozen=True)
class RecordedSums:
    """Columns that a metric sums for one task: how many in each sum, and which rows are not 0."""

    widths: tuple[int, ...] = ()
    """Number of columns of each of its sums."""
    width: int = 0
    """Numbers of a row that the metric makes."""
    only_sums: bool = True
    """False if the metric has looked at single rows' weights."""
    in_bins: bool = False
    """True if a column was summed by bins."""
    is_summed: NDArray[np.bool_] | None = None
    """(n,) True for rows that are not 0 in some column summed; None if there are no columns."""


class Recorder(Weights):
    """Weights of the sample itself (1 per row) that record which columns a metric sums.

    For one or more tasks, whose rows are concatenated; the metric's result is the point estimate of each.

    A metric sums the same columns for every resample.
    """

    def __init__(self, *sizes: int) -> None:
        """Create weights (tasks, rows), 1 on each task's own rows; several sizes must be positive."""
        super().__init__(np.eye(len(sizes)), np.repeat(np.arange(len(sizes)), sizes))
        for name, value in {"_starts": np.cumsum([0, *sizes]), "columns": [], "only_sums": True, "width": 0, "in_bins": False}.items():
            object.__setattr__(self, name, value)  # `Weights` is frozen.

    _starts: NDArray[np.int64]
    columns: list[Floats]
    in_bins: bool
    width: int
    only_sums: bool

    def recorded(self) -> list[RecordedSums]:
        """Return a RecordedSums per task: widths of the columns summed, and rows not all 0."""
        widths = tuple(column.shape[1] for column in self.columns)
        same = partial(RecordedSums, widths, self.width, self.only_sums, self.in_bins)
        if not self.columns:
            return [same() for _ in self.counts]
        is_summed = np.any([(column != 0).any(axis=1) for column in self.columns], axis=0)
        return [same(is_summed[start:end]) for start, end in pairwise(self._starts.tolist())]

    def __matmul__(self, columns: Floats) -> Floats:
        wide = columns if columns.ndim == 2 else columns[:, None]
        self.columns.append(wide)
        object.__setattr__(self, "width", self.width + wide.shape[1])
        # Task by task, so that no value depends on which other tasks there are.
        sums = np.add.reduceat(wide, self._starts[:-1], axis=0, dtype=np.float64) if len(wide) else np.zeros((1, wide.shape[1]))
        return sums if columns.ndim == 2 else sums[:, 0]

    def sum_bins(self, column: Floats, place: NDArray[np.int64], bins: int) -> Floats:
        self.columns.append(column[:, None])
        object.__setattr__(self, "in_bins", True)
        object.__setattr__(self, "width", self.width + 2)
        inside, tasks = place >= 0, len(self.counts)
        cells = self.group[inside] * bins + place[inside]
        return np.bincount(cells, column[inside], tasks * bins).astype(np.float64, copy=False).reshape(tasks, bins)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        object.__setattr__(self, "only_sums", False)
        return super().__array__(dtype, copy)

    def rows(self, chosen: NDArray[Any]) -> Weights:
        object.__setattr__(self, "only_sums", False)
        return super().rows(chosen)


class Replay(Weights):
    """Weights that hand precomputed sums to a metric, in the order in which it asks for them."""

    def __init__(self, weights: Weights, sums: list[Floats]) -> None:
        super().__init__(weights.counts, weights.group)
        object.__setattr__(self, "_sums", iter(sums))

    def __matmul__(self, columns: Floats) -> Floats:
        sums: Floats = next(self._sums)  # type: ignore[attr-defined]
        if columns.shape[1:] != sums.shape[1:] and not (columns.ndim == 1 and sums.shape[1] == 1):
            raise ValueError("a metric must sum the same columns for every resample; see registry/plugins/protocols.py")
        return sums if columns.ndim == 2 else sums[:, 0]


class StackedTasks(Weights):
    """Weights of several tasks' joined rows; sums have resamples * tasks rows, tasks fastest.

    Sums of columns alone, of metrics that make each row of what they sum from that row alone.
    """

    def __init__(self, counts: Floats, groups: Sequence[NDArray[np.int64]]) -> None:
        super().__init__(counts, np.concatenate(groups))
        # `Weights` is frozen.
        object.__setattr__(self, "_tasks", len(groups))
        place = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        object.__setattr__(self, "_cells", self.group * len(groups) + place)

    _tasks: int
    _cells: NDArray[np.int64]
    """(n,): group, then task, of each row."""

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.counts) * self._tasks, len(self.group)

    def __matmul__(self, columns: Floats) -> Floats:
        wide = columns if columns.ndim == 2 else columns[:, None]
        sums = sum_by_code(wide, self._cells, self.counts.shape[1] * self._tasks)
        drawn: Floats = (self.counts @ sums.reshape(self.counts.shape[1], -1)).reshape(-1, wide.shape[1])
        return drawn if columns.ndim == 2 else drawn[:, 0]

    def sum_bins(self, column: Floats, place: NDArray[np.int64], bins: int) -> Floats:
        inside, groups = place >= 0, self.counts.shape[1]
        cells = self._cells[inside] * bins + place[inside]
        sums = np.bincount(cells, column[inside], groups * self._tasks * bins).reshape(groups, self._tasks * bins)
        return np.asarray(self.counts @ sums).reshape(-1, bins)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if self._tasks == 1:
            return super().__array__(dtype, copy)
        raise TypeError(NO_WEIGHTS)


class SideBySide(Weights):
    """Weights for columns of times * n rows, with each resample's own n values in turn.

    Sums of columns alone; a metric that is given it makes each row of what it sums from that row alone.
    """

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights.counts, np.tile(weights.group, len(weights.counts)))
        object.__setattr__(self, "_drawn", np.asarray(weights, dtype=np.float64))

    def __matmul__(self, columns: Floats) -> Floats:
        drawn: Floats = self._drawn  # type: ignore[attr-defined]
        of_each = columns.reshape(*drawn.shape, -1)
        sums: Floats = np.matmul(drawn[:, None, :], of_each)[:, 0, :]
        return sums if columns.ndim == 2 else sums[:, 0]

    def sum_bins(self, column: Floats, place: NDArray[np.int64], bins: int) -> Floats:
        drawn: Floats = self._drawn  # type: ignore[attr-defined]
        times, n = drawn.shape
        inside = place >= 0
        cells = np.repeat(np.arange(times) * bins, n)[inside] + place[inside]
        return np.bincount(cells, (column * drawn.ravel())[inside], times * bins).astype(np.float64, copy=False).reshape(times, bins)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        raise TypeError(NO_WEIGHTS)


class Resamples(Protocol):
    """Protocol: bootstrap resamples of the rows of a slice, as blocks of weights."""

    groups: int
    times: int

    @property
    def whole(self) -> Resamples:
        """Return the resamples over all rows of the dataset, of which these are a part."""

    def groups_of(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Return the (len(rows),) group code of each of some rows."""

    def blocks(self) -> Iterator[Weights]:
        """Yield the weights of the resamples in blocks that fit in memory."""

    def deletions(self) -> Iterator[Weights]:
        """Yield jackknife weights in blocks: in each, one group or set of groups has weight 0."""


class Bootstrap:
    """`times` resamples of whole groups with replacement, determined by seed and names."""

    keep = True
    """Draw once and keep, or draw anew each time to save memory; the draws are the same."""

    def __init__(self, group: NDArray[np.int64], times: int, seed: int, *names: str) -> None:
        codes, inverse = np.unique(group, return_inverse=True)
        self.group: NDArray[np.int64] = inverse.astype(np.int64)
        self.groups, self.times = len(codes), times
        # As JSON: joined by a character, the names could run into each other.
        text = json.dumps([seed, *names], ensure_ascii=False)
        self._entropy = int.from_bytes(hashlib.sha256(text.encode()).digest())
        self._kept: list[Floats] | None = None
        self._whole: Resamples | None = None

    @property
    def whole(self) -> Resamples:
        """Return the resamples of the whole dataset that `within` set, else this object."""
        return self if self._whole is None else self._whole

    def within(self, whole: Resamples) -> Bootstrap:
        """Remember the whole dataset's resamples, of which these are a part; return self."""
        self._whole = whole
        return self

    def groups_of(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        groups: NDArray[np.int64] = self.group[rows]
        return groups

    def blocks(self) -> Iterator[Weights]:
        """Yield the weights of the resamples, at most BLOCK / n resamples at a time."""
        if self._kept is None and self.keep:
            self._kept = list(self._draw())
        for counts in self._kept if self._kept is not None else self._draw():
            yield Weights(counts, self.group)

    def deletions(self) -> Iterator[Weights]:
        """Yield jackknife weights: without one group, or one of MAX_DELETIONS sets of groups."""
        parts = min(self.groups, MAX_DELETIONS)
        part_of = np.arange(self.groups)
        if self.groups > parts:
            # A stream of its own, so that the resamples are the same with and without a jackknife.
            part_of = np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=(1,))).permutation(self.groups) % parts
        size = max(1, BLOCK // max(1, len(self.group)))
        for start in range(0, parts, size):
            deleted = np.arange(start, min(start + size, parts))
            yield Weights((part_of != deleted[:, None]).astype(np.float64), self.group)

    def _draw(self) -> Iterator[Floats]:
        rng = np.random.default_rng(self._entropy)
        # The generator is read in one go over all blocks, so their size changes no draw.
        size = max(1, min(self.times, BLOCK // max(1, len(self.group))))
        for start in range(0, self.times, size):
            b = min(size, self.times - start)
            drawn = rng.integers(0, self.groups, size=(b, self.groups))
            # Shifted so that one bincount counts all resamples at once.
            drawn += np.arange(b)[:, None] * self.groups
            yield np.bincount(drawn.ravel(), minlength=b * self.groups).reshape(b, self.groups).astype(np.float64)


class PartOf:
    """Resamples over all rows, applied to a subset, of which a resample may hold no row."""

    def __init__(self, of: Resamples, group: NDArray[np.int64]) -> None:
        """Take resamples of all rows, and the (n,) group codes of the n rows to keep."""
        self._of, self.group = of, group
        self.groups, self.times = of.groups, of.times

    @property
    def whole(self) -> Resamples:
        return self._of.whole

    def groups_of(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        groups: NDArray[np.int64] = self.group[rows]
        return groups

    def blocks(self) -> Iterator[Weights]:
        return map(self._seen, self._of.blocks())

    def deletions(self) -> Iterator[Weights]:
        """Yield jackknife weights of the kept rows, over the groups of all rows."""
        return map(self._seen, self._of.deletions())

    def _seen(self, block: Weights) -> Weights:
        return Weights(block.counts, self.group)


class SubsetResamples(PartOf):
    """Resamples restricted to the groups of some rows; counts of other groups are dropped."""

    def __init__(self, of: Resamples, rows: NDArray[Any]) -> None:
        present, codes = np.unique(of.groups_of(rows), return_inverse=True)
        self._place = np.zeros(of.groups, dtype=np.int64)
        self._place[present[codes]] = codes
        super().__init__(of, present)
        self.groups = len(present)

    def groups_of(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Return the (len(rows),) group codes of some rows, renumbered from 0."""
        return self._place[self._of.groups_of(rows)]

    def _seen(self, block: Weights) -> Weights:
        return Weights(block.counts[:, self.group], self._place[block.group])


def join_counts(blocks: Iterator[Weights]) -> Iterator[Floats]:
    """Yield (resamples, groups) counts in order, blocks concatenated up to JOINED numbers."""
    held: list[Floats] = []
    for block in blocks:
        if held and sum(counts.size for counts in held) + block.counts.size > JOINED:
            yield np.concatenate(held)
            held = []
        held.append(block.counts)
    if held:
        yield np.concatenate(held)


def pair_with_weights(
    columns: Iterator[dict[str, NDArray[Any]]], resamples: Resamples
) -> Iterator[tuple[dict[str, NDArray[Any]], Weights]]:
    """Yield (columns (b, n) by name, the weights of their b resamples), chunk by chunk."""
    blocks = resamples.blocks()
    block, at = Weights(np.empty((0, 0)), np.empty(0, dtype=np.int64)), 0
    for some in columns:
        start, times = 0, len(next(iter(some.values())))
        while start < times:
            # The two come in chunks of different lengths, so each piece ends where the first of them does.
            if at == len(block.counts):
                block, at = next(blocks), 0
            b = min(times - start, len(block.counts) - at)
            yield {name: of[start : start + b] for name, of in some.items()}, Weights(block.counts[at : at + b], block.group)
            start, at = start + b, at + b
