"""Tables of many cells, of which one at a time is in memory: the rows of one model, dataset and variant."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.runners.runtime.records import RowGroups

Key = tuple[str, str, str]
CELL = ("model", "dataset", "variant")
MAX_KEPT_GROUPS = 4
"""Row groups that stay in memory with all their cells: cells are mostly smaller than a group, and asked for in their order."""


class ByCell:
    """A table on disk, of which the rows of one (model, dataset, variant) are read at a time.

    `columns` are read beside `CELL` and `sample_id`; `numbered` adds `row`, the place of a row in the table; `words` are those of few
    different texts, which come as dictionaries, and so do those of `CELL`. RecordError if the table is not what its schema says.
    """

    def __init__(self, path: Path, schema: pa.Schema, columns: Sequence[str], numbered: bool = False, words: Sequence[str] = ()) -> None:
        self._groups = RowGroups(path, schema, [*CELL, "sample_id", *columns], [*CELL, *words])
        self._recent: dict[int, dict[Key, pa.Table]] = {}
        self._numbered = numbered
        self._starts: list[int] = []
        self._places: dict[Key, list[int]] = {}
        first: dict[Key, int] = {}
        rows = 0
        for place in range(len(self._groups)):
            keys = _with_rows(self._groups.read(place, CELL), rows)
            self._starts.append(rows)
            rows += keys.num_rows
            for key, part in split(keys, CELL):
                self._places.setdefault(key, []).append(place)
                first.setdefault(key, part["row"][0].as_py())
        self._keys = sorted(first, key=lambda key: first[key])

    def __iter__(self) -> Iterator[Key]:
        """Yield the (model, dataset, variant) keys, in the order of their first rows."""
        return iter(self._keys)

    def get(self, key: Key) -> pa.Table | None:
        """Return the rows of one (model, dataset, variant), in order; None if there are none."""
        if key not in self._places:
            return None
        return pa.concat_tables([self._cells_of(place)[key] for place in self._places[key]])

    def _cells_of(self, place: int) -> dict[Key, pa.Table]:
        if place not in self._recent:
            while len(self._recent) >= MAX_KEPT_GROUPS:
                # Dictionaries keep the order of insertion: the first is the oldest.
                del self._recent[next(iter(self._recent))]
            group = self._groups.read(place)
            self._recent[place] = dict(split(_with_rows(group, self._starts[place]) if self._numbered else group, CELL))
        return self._recent[place]


def _with_rows(group: pa.Table, start: int) -> pa.Table:
    return group.append_column("row", pa.array(np.arange(group.num_rows) + start))


def split(table: pa.Table, names: Sequence[str]) -> Iterator[tuple[Key, pa.Table]]:
    """Yield (values of columns `names`, their rows), sorted by first occurrence in each column."""
    if not table.num_rows:
        return
    code = np.zeros(table.num_rows, dtype=np.int64)
    words = []
    for name in names:
        own, texts = _coded(table[name].combine_chunks())
        words.append(texts)
        code = code * len(texts) + own
    order = np.argsort(code, kind="stable")
    # Mostly the rows of a cell lie together already, and a copy is saved.
    sorted_table = table if (order[1:] > order[:-1]).all() else table.take(pa.array(order))
    code = code[order]
    starts = np.flatnonzero(np.r_[True, code[1:] != code[:-1]])
    for start, end in zip(starts, [*starts[1:], len(code)], strict=True):
        part = sorted_table.slice(int(start), int(end - start))
        yield tuple(part[name][0].as_py() for name in names), part  # type: ignore[misc]


def _coded(column: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.int64], list[str | None]]:
    """Return ((n,) code of each row's text, text of each code, None for null)."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    code = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    texts = encoded.dictionary.to_pylist()
    begins = code[np.flatnonzero(np.r_[True, code[1:] != code[:-1]])]  # a dictionary that was read may have another order, and more texts
    first = list(dict.fromkeys(begins.tolist()))
    if first != list(range(len(texts))):
        place = np.zeros(len(texts), dtype=np.int64)
        place[first] = np.arange(len(first))
        code, texts = place[code], [texts[k] for k in first]
    return code, texts
