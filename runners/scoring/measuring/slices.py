"""Slices of a dataset with their resamples: all rows, the rows of each value of a field, and macro averages."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from qualm.registry import ALL, MACRO
from qualm.runners.data.aligned import CROSS, Samples
from qualm.runners.scoring.bootstrap import Bootstrap, PartOf
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.measured import Slice

CHANGED = "changed"
"""Slice of the samples whose perturbed input differs from the clean one."""
MAX_KEPT_COUNTS = 48_000_000
"""Counts of resamples of one dataset that are kept for its next cell (384 MB); beyond, they are drawn again."""


def make_slices(samples: Samples, fields: list[str], times: int, seed: int, averaged: Sequence[str] = ()) -> list[Slice]:
    """Return slices of `times` resamples: all rows, each value of fields, macro averages.

    The draws depend on the seed, the dataset and the slice alone: every model and variant sees the same resamples, so
    differences between them can be paired. Macro averages have the resamples of all rows.
    """
    parts = [(ALL, np.arange(samples.n))]
    for field in fields:
        parts += [(f"{field}={value}", rows) for value, rows in _rows_by_combination(samples, field.split(CROSS)).items()]
    slices: list[Slice] = []
    budget = MAX_KEPT_COUNTS
    for label, rows in parts:
        bootstrap = Bootstrap(samples.groups[rows], times, seed, samples.name, label)
        if slices:
            bootstrap.within(slices[0].bootstrap)
        budget -= bootstrap.groups * times
        bootstrap.keep = budget >= 0
        slices.append(Slice(label, rows, bootstrap))
    for field in averaged:
        if len(rows := np.flatnonzero(samples.partition(field)[0] >= 0)):
            whole = slices[0].bootstrap
            slices.append(Slice(f"{MACRO}{field}", rows, PartOf(whole, whole.groups_of(rows)), field))
    return slices


def _rows_by_combination(samples: Samples, fields: list[str]) -> dict[str, NDArray[np.int64]]:
    """Return the row indices by combination of the fields' values that occurs."""
    rows_of = _rows_by_value(samples, fields[0])
    for field in fields[1:]:
        both = {f"{a}{CROSS}{b}": np.intersect1d(x, y) for a, x in rows_of.items() for b, y in _rows_by_value(samples, field).items()}
        rows_of = {value: rows for value, rows in both.items() if len(rows)}
    return rows_of


def _rows_by_value(samples: Samples, field: str) -> dict[str, NDArray[np.int64]]:
    """Return the row indices by value of a field, and by each parent of a `category`.

    `epistemic` comes before `epistemic/knowledge` and holds its rows.
    """
    rows: dict[tuple[str, ...], list[int]] = {}
    for i, value in enumerate(samples.values(field)):
        if value is not None:
            path = tuple(value.split("/")) if field == "category" else (value,)
            for depth in range(1, len(path) + 1):
                rows.setdefault(path[:depth], []).append(i)
    return {"/".join(path): np.array(rows[path], dtype=np.int64) for path in sorted(rows)}


def changed_slices(cell: Cell, whole: Slice) -> Iterator[Slice]:
    """Yield the slice of samples known to differ from clean; nothing if none is known equal."""
    if cell.changed is not None:
        rows = np.flatnonzero(cell.changed)
        yield Slice(CHANGED, rows, PartOf(whole.bootstrap, whole.bootstrap.groups_of(rows)))
