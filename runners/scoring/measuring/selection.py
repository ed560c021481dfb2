"""Rows of a slice that metrics read: those that a metric can be over, and those that have all its columns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins import columns
from qualm.registry.plugins.column_names import CODE_OF, GROUP_OF
from qualm.runners.contracts.grouped_weights import number_groups
from qualm.runners.contracts.metrics import missing_rows
from qualm.runners.data.aligned import Floats
from qualm.runners.scoring.calibration.fits import Recalibration
from qualm.runners.scoring.cells import CHOICE_ONLY, OPEN_ONLY, Cell
from qualm.runners.scoring.measuring.measured import Slice
from qualm.runners.scoring.measuring.metrics import Metric


@dataclass(eq=False)
class ScoredRows:
    """Rows of a slice for one metric, with masks: scored, and counted (others only calibrate)."""

    universe: NDArray[np.int64]
    taken: dict[str, Floats]
    """Columns of these rows."""
    scored: NDArray[np.bool_]
    """Rows that have all columns."""
    counted: NDArray[np.bool_]
    """Rows that the metric is over; the others only calibrate."""
    place: NDArray[np.int64]
    """Places of the scored rows in the slice."""
    group: NDArray[np.int64]
    """Groups of the scored rows."""
    n_questions: int
    """Rows before those that calibrate are left out."""

    @cached_property
    def columns(self) -> dict[str, Floats]:
        return self.taken if self.scored.all() else {name: of[self.scored] for name, of in self.taken.items()}

    @cached_property
    def of_cell(self) -> NDArray[np.int64]:
        """Return the scored rows' row indices in the cell."""
        return self.universe[self.scored]

    @cached_property
    def is_counted(self) -> NDArray[np.bool_]:
        return self.counted[self.scored]

    @cached_property
    def n(self) -> int:
        return int(self.is_counted.sum())

    @cached_property
    def _counted_per_group(self) -> NDArray[np.int64]:
        return np.bincount(self.group[self.is_counted])

    @cached_property
    def counted_groups(self) -> NDArray[np.int64]:
        """Return the distinct codes of the groups with counted rows, ascending."""
        return np.flatnonzero(self._counted_per_group)

    @cached_property
    def units(self) -> float:
        """Return the effective number of groups (`limits.effective_units`) the metric is over."""
        rows = self._counted_per_group
        return float(rows.sum() ** 2 / max(1, rows @ rows))

    @cached_property
    def group_places(self) -> NDArray[np.int64]:
        """Return each scored row's index into the scored rows' groups."""
        return number_groups(self.group)[0]


class RowSelection:
    """Selects rows of one cell and slice, once for all metrics with the same columns."""

    def __init__(self, cell: Cell, part: Slice) -> None:
        self.cell, self.part = cell, part
        self.nothing_calibrates = np.zeros(cell.samples.n)
        self._universes: dict[tuple[Any, ...], list[tuple[str, NDArray[np.int64]]]] = {}
        self._rows: dict[tuple[Any, ...], tuple[ScoredRows, list[NDArray[Any]]]] = {}
        self._evaluated: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._contents: dict[int, tuple[Floats, bytes]] = {}

    def coded(self, metric: Metric) -> dict[str, Floats]:
        """Return a metric's columns of sample-field codes, by name."""
        return {name: self.cell.coded(name) for name in metric.reads if name.startswith((GROUP_OF, CODE_OF))}

    def universes(self, metric: Metric) -> list[tuple[str, NDArray[np.int64]]]:
        """Return (slice name, rows the metric can be over) per slice of a macro average, or one."""
        cell, reads, coded = self.cell, frozenset(metric.reads), self.coded(metric)
        rated = any(columns.judge_of(name) is not None for name in reads)
        key = bool(reads & CHOICE_ONLY), bool(reads & OPEN_ONLY), rated, tuple(sorted(coded))
        if key not in self._universes:
            universe = self.part.rows if cell.asked is None else self.part.rows[cell.asked[self.part.rows]]
            if reads & CHOICE_ONLY:
                universe = universe[cell.samples.n_options[universe] > 0]
            if reads & OPEN_ONLY:
                universe = universe[cell.in_words[universe]]
            if rated:
                universe = universe[cell.samples.n_options[universe] == 0]
            for codes in coded.values():
                universe = universe[~np.isnan(codes[universe])]
            self._universes[key] = list(_slices_of_macro(cell, self.part, universe))
        return self._universes[key]

    def rows(self, metric: Metric, readings: Mapping[str, Floats], universe: NDArray[np.int64]) -> ScoredRows:
        """Return the ScoredRows of a metric within `universe`; `readings`: columns by name."""
        names = sorted(set(metric.reads))
        over = (metric.over, metric.args.get("right_from", 1)) if metric.over else None
        arrays = [universe, *(readings[name] for name in names)]
        key = (metric.of_test_rows, metric.is_row_by_row, over, *names, *map(id, arrays))
        if key not in self._rows:
            # The arrays are held, so that no other array gets the id of one of them.
            self._rows[key] = _scored_rows(metric, {name: readings[name] for name in names}, universe, self.part), arrays
        return self._rows[key][0]

    def evaluated(self, universe: NDArray[np.int64], recalibration: Recalibration) -> NDArray[np.int64]:
        """Return the row indices of `universe` that a recalibration is not fitted on."""
        key = id(universe), id(recalibration)
        if key not in self._evaluated:
            self._evaluated[key] = universe[~recalibration.calibrates[universe]]
        return self._evaluated[key]

    def content(self, column: Floats) -> bytes:
        """Return a digest of all values of a column, cached by the array's identity."""
        if id(column) not in self._contents:
            self._contents[id(column)] = column, blake2b(column.tobytes()).digest()
        return self._contents[id(column)][1]


def _scored_rows(metric: Metric, readings: Mapping[str, Floats], universe: NDArray[np.int64], part: Slice) -> ScoredRows:
    n_questions = len(universe)
    if metric.of_test_rows and metric.is_row_by_row:
        universe = universe[readings["is_calibration"][universe] == 0]
    taken = {name: of[universe] for name, of in readings.items()}
    scored = has_all(taken)
    counted = taken["is_calibration"] == 0 if metric.of_test_rows else np.ones(len(universe), dtype=bool)
    if metric.over:
        counted &= taken[metric.over] >= metric.args.get("right_from", 1)
    place = np.searchsorted(part.rows, universe)[scored]
    return ScoredRows(universe, taken, scored, counted, place, part.bootstrap.groups_of(place), n_questions)


def _slices_of_macro(cell: Cell, part: Slice, universe: NDArray[np.int64]) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield (`FIELD=value`, rows) per slice of a macro average; ("", universe) without one."""
    if not part.macro:
        yield "", universe
        return
    number, names = cell.samples.partition(part.macro)
    for k in np.unique(number[part.rows]):
        yield f"{part.macro}={names[k]}", universe[number[universe] == k]


def has_all(taken: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Return (n,) True for rows with all columns; none of a group with an incomplete row."""
    scored: NDArray[np.bool_] = ~np.any([missing_rows(values) for values in taken.values()], axis=0)
    # A group with one unscored row is unscored whole: "all of it right" cannot be said of a part.
    for group in (values for name, values in taken.items() if name.startswith(GROUP_OF)):
        scored &= ~np.isin(group, group[~scored])
    return scored
