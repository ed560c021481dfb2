"""Sums of prediction sets in resamples that have a threshold each, of metrics that sum what each row gives by itself.

A row's set changes at few of the thresholds, so a metric is asked for its rows at the lowest one and for those that change, and the rest is
addition. Sums of whole numbers, which sets mostly have, are exact in every order: those of all metrics, settings and scores come from one
matrix product, and of no metric does a value depend on which others were asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.data.aligned import Floats
from qualm.runners.scoring.bootstrap import Recorder, Replay, Resamples
from qualm.runners.scoring.conformal.draws import Steps
from qualm.runners.scoring.measuring.measured import MetricTask

EXACT = 2**24
"""Whole numbers up to here are exact in single precision."""
Ints = NDArray[np.int64]


def at_thresholds(tasks: Sequence[MetricTask], bootstrap: Resamples) -> None:
    """Fill in the values of tasks, each resample's by the sets of its own threshold."""
    whole, by_metric = _Sums(bootstrap), dict[str, _Sums]()
    plans = []
    for task in tasks:
        others = by_metric.setdefault(task.metric.label, _Sums(bootstrap))
        plans.append([(whole if column.is_whole else others).place(column) for column in _columns(task, bootstrap)])
    values = np.full((len(tasks), bootstrap.times), np.nan)
    start = 0
    for block in bootstrap.blocks():
        end = start + len(block.counts)
        whole.fill(block, start, True)
        for others in by_metric.values():
            others.fill(block, start, False)
        for k, (task, sums_of) in enumerate(zip(tasks, plans, strict=True)):
            widths = np.cumsum([0, *(column.shape[1] for column in task.weights.columns)])
            sums = np.stack([of() for of in sums_of], axis=1)
            parts = [sums[:, a:b] for a, b in pairwise(widths)]
            values[k, start:end] = task.metric.function(*task.arrays, Replay(block.rows(task.rows), parts), **task.metric.args)
        start = end
    for task, of_task in zip(tasks, values, strict=True):
        task.measured.resampled = of_task


@dataclass(frozen=True)
class _Column:
    """One column that a metric sums, at every threshold."""

    lowest: Floats
    """(n,) at the lowest threshold."""
    before: Floats
    after: Floats
    """(m,): of changes of a row's set, in the order of thresholds."""
    rows: Ints
    at: Ints
    """(m,): whose, and at which threshold."""
    group: Ints
    steps: Steps
    is_whole: bool
    """Whether all of these are whole numbers."""

    @property
    def is_constant(self) -> bool:
        return bool((self.before == self.after).all())

    def group_sums(self, groups: int, whole: bool) -> Floats:
        """(thresholds, groups), or (1, groups) of what is the same at all thresholds."""
        lowest: Floats = np.bincount(self.group, self.lowest, groups).astype(np.float64)
        if self.is_constant:
            return lowest[None]
        count = len(self.steps.limits)
        if whole:
            # Exact only for whole numbers: a running sum of fractions would drift with the order of thresholds.
            changes = np.bincount(self.at * groups + self.group[self.rows], self.after - self.before, count * groups)
            changes[:groups] = lowest
            return np.asarray(np.cumsum(changes.reshape(count, groups), axis=0), dtype=np.float64)
        sums, column = np.empty((count, groups)), self.lowest.copy()
        # Fractions are summed anew at each threshold, in the order of rows.
        for k in range(count):
            here = self.at == k
            column[self.rows[here]] = self.after[here]
            sums[k] = np.bincount(self.group, column, groups)
        return sums


def _columns(task: MetricTask, bootstrap: Resamples) -> Iterator[_Column]:
    """What a metric sums, column by column."""
    assert task.redraw is not None
    steps = task.redraw.steps(bootstrap.whole)
    n = len(task.rows)
    place = np.full(len(steps.lowest["covered"]), -1, dtype=np.int64)
    place[task.of_cell] = np.arange(n)
    of_change = place[steps.rows]
    here = of_change >= 0
    rows = of_change[here]
    arrays = []
    for name, of in zip(task.metric.reads, task.arrays, strict=True):
        if name in steps.lowest:
            arrays.append(np.concatenate([steps.lowest[name][task.of_cell], steps.before[name][here], steps.after[name][here]]))
        else:
            arrays.append(np.concatenate([of, of[rows], of[rows]]))
    # The metric is asked once for all states that any row is ever in; ROW_BY_ROW promises that rows do not see each other.
    recorder = Recorder(n + 2 * len(rows))
    task.metric.function(*arrays, recorder, **task.metric.args)
    group, at = bootstrap.seen_on(task.rows).group, steps.at[here]
    for columns in recorder.columns:
        for column in columns.T:
            lowest, before, after = column[:n], column[n : n + len(rows)], column[n + len(rows) :]
            yield _Column(lowest, before, after, rows, at, group, steps, bool((column == np.rint(column)).all()))


@dataclass
class _Place:
    """Where the sums of a column are."""

    sums: _Sums
    start: int
    which: Ints | None
    """(B,): the threshold of each resample; None where all are the same."""

    def __call__(self) -> Floats:
        """(b,): in the resamples of the block at hand."""
        of_block = self.sums.of_block
        b = of_block.shape[1]
        if self.which is None:
            return np.asarray(of_block[self.start], dtype=np.float64)
        here = self.which[self.sums.first : self.sums.first + b]
        return np.asarray(of_block[self.start + here, np.arange(b)], dtype=np.float64)


@dataclass
class _Sums:
    """Sums over each group that are multiplied together; equal ones stand there once."""

    bootstrap: Resamples
    first: int = 0
    of_block: NDArray[np.floating] = field(default_factory=lambda: np.empty((0, 0)))
    """(k, b)."""
    _tables: list[Floats] = field(default_factory=list)
    _height: int = 0
    _places: dict[tuple[object, ...], _Place] = field(default_factory=dict)
    _together: Floats | None = None

    def place(self, column: _Column) -> _Place:
        """Of a column, which is added where it is new."""
        changes = () if column.is_constant else (id(column.steps), column.rows.tobytes(), column.after.tobytes())
        key = (column.group.tobytes(), column.lowest.tobytes(), *changes)
        if key not in self._places:
            table = column.group_sums(self.bootstrap.groups, column.is_whole)
            self._places[key] = _Place(self, self._height, column.steps.which if changes else None)
            self._tables.append(table)
            self._height += len(table)
        return self._places[key]

    def fill(self, block: Weights, first: int, whole: bool) -> None:
        """The sums in the resamples of a block, the first of which has this number."""
        self.first = first
        if self._together is None:
            self._together = np.concatenate([*self._tables, np.empty((0, self.bootstrap.groups))])
            self._tables = []
        counts, table = block.counts, self._together
        if whole and table.size and counts.size and float(counts.max()) * float(np.abs(table).sum(axis=1).max()) < EXACT:
            # No partial sum can exceed EXACT, so single precision gives the same numbers in half the time.
            self.of_block = table.astype(np.float32) @ counts.astype(np.float32).T
        else:
            self.of_block = table @ counts.T
