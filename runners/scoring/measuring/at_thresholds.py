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

from qualm.registry.plugins.column_names import SET_COLUMNS
from qualm.runners.contracts.grouped_weights import Weights, number_groups
from qualm.runners.data.aligned import Floats
from qualm.runners.scoring.bootstrap import Recorder, Replay, Resamples
from qualm.runners.scoring.calibration.conformal_draws import Steps
from qualm.runners.scoring.measuring.measured import MetricTask

EXACT = 2**24
"""Whole numbers up to here are exact in single precision."""
Ints = NDArray[np.int64]


def resample_at_thresholds(tasks: Sequence[MetricTask], bootstrap: Resamples) -> None:
    """Set `measured.resampled` of tasks: each resample's value at its own conformal threshold."""
    # Whole numbers of all metrics stand together, fractions of each metric apart; both by the groups whose rows they are of.
    sums: dict[tuple[str, bytes], _Sums] = {}
    plans = []
    states: dict[tuple[int, bytes], list[_States]] = {}  # those of metrics that are over the same rows
    for task in tasks:
        same, plan = (id(task.redraw), task.of_cell.tobytes()), []
        if same not in states:
            states[same] = _states(task, bootstrap)
        for columns in _columns(task, states[same]):
            places = []
            for column in columns:
                key = "" if column.is_whole else task.metric.label, column.groups.tobytes()
                places.append(sums.setdefault(key, _Sums(column.groups, column.is_whole)).place(column))
            plan.append(places)
        plans.append(plan)
    values = np.full((len(tasks), bootstrap.times), np.nan)
    start = 0
    for block in bootstrap.blocks():
        end = start + len(block.counts)
        for of_groups in sums.values():
            of_groups.set_block(block, start)
        for k, (task, plan) in enumerate(zip(tasks, plans, strict=True)):
            widths = np.cumsum([0, *task.recorded.widths])
            of_columns = np.stack([sum((of() for of in places[1:]), places[0]()) for places in plan], axis=1)
            parts = [of_columns[:, a:b] for a, b in pairwise(widths)]
            values[k, start:end] = task.metric.function(*task.arrays, Replay(block.rows(task.rows), parts), **task.metric.args)
        start = end
    for task, of_task in zip(tasks, values, strict=True):
        task.measured.resampled = of_task


@dataclass(frozen=True)
class _Column:
    """One column that a metric sums, at every threshold that its rows share."""

    lowest: Floats
    """(n,) at the lowest threshold."""
    before: Floats
    after: Floats
    """(m,): of changes of a row's set, in the order of thresholds."""
    rows: Ints
    at: Ints
    """(m,): whose, and at which threshold."""
    groups: Ints
    """(g,): the groups of its rows."""
    group: Ints
    """(n,): which of them each row is of."""
    steps: Steps
    is_whole: bool

    @property
    def is_constant(self) -> bool:
        return bool((self.before == self.after).all())

    def group_sums(self) -> Floats:
        """Return (thresholds, g) sums over each group's rows; (1, g) if no threshold matters."""
        groups = len(self.groups)
        lowest: Floats = np.bincount(self.group, self.lowest, groups).astype(np.float64)
        if self.is_constant:
            return lowest[None]
        count = len(self.steps.limits)
        if self.is_whole:
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


@dataclass(frozen=True)
class _States:
    """States of the prediction sets of a task's rows: at the lowest threshold, and changes."""

    steps: Steps
    members: Ints
    changing: Ints
    """Places in the task of the rows, and of the rows of changes."""
    there: NDArray[np.bool_]
    here: NDArray[np.bool_]
    """Which rows and changes of the steps these are."""
    place: Ints
    """Places of the rows of changes among `members`."""
    groups: Ints
    group: Ints
    """The groups of the rows, and which of them each row is of."""

    @property
    def rows(self) -> Ints:
        return np.concatenate([self.members, self.changing, self.changing])

    def column(self, name: str) -> Floats:
        of = self.steps
        return np.concatenate([of.lowest[name][self.there], of.before[name][self.here], of.after[name][self.here]])


def _states(task: MetricTask, bootstrap: Resamples) -> list[_States]:
    """Return the states of a task's prediction sets: one _States per question part."""
    assert task.redraw is not None
    of_task = np.full(len(task.redraw.truth), -1, dtype=np.int64)
    of_task[task.of_cell] = np.arange(len(task.rows))
    group, place, states = bootstrap.groups_of(task.rows), np.empty(len(task.rows), dtype=np.int64), []
    for steps in task.redraw.steps(bootstrap.whole):
        members, changing = of_task[steps.members], of_task[steps.rows]
        there, here = members >= 0, changing >= 0
        members, changing = members[there], changing[here]
        if len(members):
            place[members] = np.arange(len(members))
            of_group, counts = number_groups(group[members])
            groups = np.empty(len(counts), dtype=np.int64)
            groups[of_group] = group[members]
            states.append(_States(steps, members, changing, there, here, place[changing], groups, of_group))
    return states


def _columns(task: MetricTask, states: Sequence[_States]) -> Iterator[list[_Column]]:
    """Yield, per column that a metric sums, a list of _Column, one per state of `states`."""
    rows = np.concatenate([of.rows for of in states])
    # The metric is asked once for all states that any row is ever in; `row_by_row` promises that rows do not see each other.
    recorder = Recorder(len(rows))
    arrays = [
        np.concatenate([each.column(name) for each in states]) if name in SET_COLUMNS else of[rows]
        for name, of in zip(task.metric.reads, task.arrays, strict=True)
    ]
    task.metric.function(*arrays, recorder, **task.metric.args)
    for columns in recorder.columns:
        for column in columns.T:
            start, is_whole, apart = 0, bool((column == np.rint(column)).all()), []
            for of in states:
                n, m = len(of.members), len(of.changing)
                lowest, before, after = (column[start + a : start + b] for a, b in ((0, n), (n, n + m), (n + m, n + 2 * m)))
                apart.append(_Column(lowest, before, after, of.place, of.steps.at[of.here], of.groups, of.group, of.steps, is_whole))
                start += n + 2 * m
            yield apart


@dataclass
class _ColumnSums:
    """Callable that returns one column's sums in the current block of resamples."""

    sums: _Sums
    start: int
    which: Ints | None
    """(B,): the threshold of each resample; None where all are the same."""

    def __call__(self) -> Floats:
        """Return (b,) sums of the column, one for each resample of the current block."""
        of_block = self.sums.of_block
        b = of_block.shape[1]
        if self.which is None:
            return np.asarray(of_block[self.start], dtype=np.float64)
        here = self.which[self.sums.first : self.sums.first + b]
        return np.asarray(of_block[self.start + here, np.arange(b)], dtype=np.float64)


@dataclass
class _Sums:
    """Weighted sums of distinct columns in a block of resamples, by one matrix product."""

    groups: Ints
    is_whole: bool
    first: int = 0
    of_block: NDArray[np.floating] = field(default_factory=lambda: np.empty((0, 0)))
    """(k, b)."""
    _tables: list[Floats] = field(default_factory=list)
    _height: int = 0
    _places: dict[tuple[object, ...], _ColumnSums] = field(default_factory=dict)

    def place(self, column: _Column) -> _ColumnSums:
        """Return a callable for a column's sums in the current block; a new column is added."""
        changes = () if column.is_constant else (id(column.steps), column.rows.tobytes(), column.after.tobytes())
        key = (column.group.tobytes(), column.lowest.tobytes(), *changes)
        if key not in self._places:
            table = column.group_sums()
            self._places[key] = _ColumnSums(self, self._height, column.steps.which if changes else None)
            self._tables.append(table)
            self._height += len(table)
        return self._places[key]

    def set_block(self, block: Weights, first: int) -> None:
        """Replace `of_block` by the sums in a block of resamples; `first` numbers its first one."""
        self.first = first
        if len(self._tables) > 1:
            self._tables = [np.concatenate(self._tables)]
        (table,), counts = self._tables, block.counts
        counts = counts if len(self.groups) == counts.shape[1] else counts[:, self.groups]
        if self.is_whole and counts.size and float(counts.max()) * float(np.abs(table).sum(axis=1).max()) < EXACT:
            # No partial sum can exceed EXACT, so single precision gives the same numbers in half the time.
            self.of_block = table.astype(np.float32) @ counts.astype(np.float32).T
        else:
            self.of_block = table @ counts.T
