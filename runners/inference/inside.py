"""Table of hidden states and attention of a stage's answers, from the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from qualm.registry import GREEDY
from qualm.registry.plugins.internals import parse_internal
from qualm.runners.contracts.parts import internal_of
from qualm.runners.data.internals import GROUP_BYTES, schema, write_internals
from qualm.runners.inference.keys import stored_keys

if TYPE_CHECKING:
    from qualm.runners.data.answers import Store
    from qualm.runners.inference.requests import Asker, SampleVariant

_MIN_ANSWERS, _MAX_ANSWERS = 8, 2048
"""Answers taken from the store at first, before their size is known, and at most."""


def write_internals_table(
    asker: Asker, dataset_index: int, cells: Sequence[SampleVariant], store: Store, path: Path, provenance: Mapping[str, Any]
) -> int:
    """Write one dataset's table of hidden states and attention; return its number of rows.

    Args:
        cells: of all datasets, in the order of their tables.
        store: holds all their parts; LostError if one is gone.
        provenance: see `qualm.runners.runtime.records.write_table`.
    """
    signals = tuple(dict.fromkeys(parse_internal(need).signal for need in asker.internals))
    mine = [cell for cell in cells if cell.place.dataset == dataset_index and _parts(asker, cell)]
    # By variant, so that a reader of one variant skips the row groups of all others.
    mine.sort(key=lambda cell: cell.place.variant)
    return write_internals(path, _tables(asker, mine, store, signals), signals, provenance)


def _tables(asker: Asker, cells: Sequence[SampleVariant], store: Store, signals: Sequence[str]) -> Iterator[pa.Table]:
    size = _MIN_ANSWERS
    for _, group in groupby(cells, key=lambda cell: cell.place.variant):
        own = list(group)
        at = 0
        while at < len(own):
            table = _table(asker, own[at : at + size], store, signals)
            yield table
            at += size
            # Sized by what came before: a state has from hundreds to many thousands of numbers, which only the store knows.
            size = min(_MAX_ANSWERS, max(1, int(GROUP_BYTES * size / max(1, table.nbytes))))


def _table(asker: Asker, cells: Sequence[SampleVariant], store: Store, signals: Sequence[str]) -> pa.Table:
    needed = [(cell, part) for cell in cells for part in _parts(asker, cell)]
    stored = store.take(stored_keys(asker, store, [(cell.place, part) for cell, part in needed]))
    states, numbers = (stored[name].combine_chunks() for name in ("states", "numbers"))
    rows: dict[tuple[int, int], int] = {}
    filled: dict[str, list[tuple[int, int]]] = {signal: [] for signal in signals}
    for at, (cell, part) in enumerate(needed):
        what, draw = internal_of(part) or (None, GREEDY)
        assert what is not None
        filled[what.signal].append((rows.setdefault((id(cell), draw), len(rows)), at))
    by_id = {id(cell): cell for cell in cells}
    own = [by_id[one] for one, _ in rows]
    columns = [
        pa.array([asker.name(cell.place) for cell in own]),
        pa.array([asker.variants[cell.place.variant].name for cell in own]),
        pa.array([draw for _, draw in rows], pa.int16()),
    ]
    for signal in signals:
        source = np.full(len(rows), -1)
        for row, at in filled[signal]:
            source[row] = at
        columns.append((numbers if parse_internal(signal).exact else states).take(pa.array(source, mask=source < 0)))
    return pa.table(columns, schema=schema(signals))


def _parts(asker: Asker, cell: SampleVariant) -> list[str]:
    return [part for part in asker.parts(cell.options) if internal_of(part)]
