"""Rankings of one metric on one data set, from the store of scores where nothing that they rest on has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.registry.sample import CLEAN
from qualm.runners.runtime.code_digest import engine_digest
from qualm.runners.scoring.measuring.cell_scores import CellScores, MetricScores
from qualm.runners.scoring.measuring.measured import Slice
from qualm.runners.scoring.rankings import Candidate, Place, Ranked, Rankings, ranked
from qualm.runners.store.scores import ScoreStore

_EMPTY = np.empty(0, dtype=np.float32)
_LISTS = ("values", "z", "low", "high", "highest", "least_p", "pair_ends")
COLUMNS = pa.schema([("about", pa.string()), ("n", pa.list_(pa.int64())), *((name, pa.list_(pa.float64())) for name in _LISTS)])
"""Of a table of ranked columns: what is no number as JSON; matrices as their upper triangles."""
Order = tuple[int, ...]
"""Where a column stands among those of a data set: cell, slice, metric, row of the first candidate, what is ranked."""


@dataclass
class Ranking:
    """Ranks cells as they come in, data set by data set."""

    rankings: Rankings
    store: ScoreStore | None
    _cells: list[CellScores] = field(default_factory=list)

    def add(self, scores: CellScores) -> None:
        """What was measured of a cell, of which its numbers and its names are held."""
        names = dict.fromkeys(scores.cell.uncertainties, _EMPTY.astype(np.float64))
        gone: dict[str, Any] = {"columns": {}, "settings": {}, "clean_uncertainties": {}, "recalibrations": []}
        cell = replace(scores.cell, uncertainties=names, reasons=None, asked=None, **gone)
        self._cells.append(replace(scores, cell=cell, computed=[]))

    def rank(self) -> None:
        """Test what waits; its draws are then let go."""
        columns: list[tuple[Order, Ranked]] = []
        for place, metric in enumerate(self.rankings.metrics):
            entries = [(i, cell, of) for i, cell in enumerate(self._cells) for of in cell.by_metric if of.metric is metric]
            for (cell, part, *rest), column in self._of_metric(entries):
                columns.append(((cell, part, place, *rest), column))
        self.rankings.ranked += [column for _, column in sorted(columns, key=lambda entry: entry[0])]
        self._cells.clear()

    def _of_metric(self, entries: Sequence[tuple[int, CellScores, MetricScores]]) -> list[tuple[Order, Ranked]]:
        key = ""
        if self.store is not None and entries and all(scores.key for *_, scores in entries):
            content = [[i, scores.key, cell.cell.model, cell.cell.variant, list(cell.cell.uncertainties)] for i, cell, scores in entries]
            key = self.store.key("ranking", _code(), self.rankings.level, content)
            if (table := self.store.get_table(key)) is not None:
                return _columns(table)
        columns = self._made(entries)
        if key and self.store is not None:
            self.store.put_table(key, _table(columns))
        return columns

    def _made(self, entries: Sequence[tuple[int, CellScores, MetricScores]]) -> list[tuple[Order, Ranked]]:
        waiting = Rankings(self.rankings.metrics, self.rankings.level, self.rankings.family)
        orders: dict[tuple[Place, bool, int], Order] = {}
        for i, cell, scores in entries:
            rows = scores.rows
            drawn = np.flatnonzero(rows["is_drawn"].to_numpy())
            if not len(drawn):
                continue
            draws = scores.draws(cell.slices[0].bootstrap.times)
            names = ("part", "metric", "value", "n", "bound_low", "bound_high")
            columns = [rows[name].take(pa.array(drawn)).to_pylist() for name in names]
            for k, (part, label, value, n, *bounds) in enumerate(zip(*columns, strict=True)):
                of: Slice = cell.slices[part]
                one = Candidate(cell.cell.model, value, draws[k], n, (bounds[0], bounds[1]))
                waiting.offer(scores.metric, cell.cell, of, label, one, part == 0, cell.cell.variant == CLEAN)
                # One offer may open up to three columns: the newest keys of the dictionary, in the order in which they came.
                for kind in range(len(waiting.waiting) - len(orders), 0, -1):
                    orders[next(islice(reversed(waiting.waiting), kind - 1, None))] = (i, part, int(drawn[k]), -kind)
        alike: dict[bytes, Ranked] = {}  # settings that differ by name alone have equal columns
        columns = []
        for (place, better, groups), candidates in waiting.waiting.items():
            if len(candidates) < 2:
                continue
            content = _content(place, better, groups, candidates)
            if content not in alike:
                alike[content] = ranked(place, better, candidates, groups, self.rankings.level)
            columns.append((orders[place, better, groups], replace(alike[content], place=place, names=tuple(c.name for c in candidates))))
        return columns


@cache
def _code() -> str:
    """Of this module and what it imports: that of the store is without."""
    return engine_digest(__name__)


def _content(place: Place, better: bool, groups: int, candidates: Sequence[Candidate]) -> bytes:
    """Digest of what the numbers of a column depend on."""
    about = [place[1], place[4], better, groups, [(c.value, c.n, c.bounds) for c in candidates]]
    digest = sha256(repr(about).encode())
    for candidate in candidates:
        digest.update(candidate.drawn.tobytes())
    return digest.digest()


def _table(columns: Sequence[tuple[Order, Ranked]]) -> pa.Table:
    rows: dict[str, list[Any]] = {name: [] for name in COLUMNS.names}
    for order, column in columns:
        about = {"order": order, "place": column.place, "higher_is_better": column.higher_is_better, "names": column.names}
        rows["about"].append(json.dumps(about))
        rows["n"].append(column.n)
        values: Mapping[str, Any] = {
            "values": column.values,
            "z": column.z[_upper(len(column.names))],
            "low": column.low,
            "high": column.high,
            "highest": column.highest,
            "least_p": column.least_p.ravel() if column.least_p.any() else [],
            "pair_ends": column.pair_ends.ravel(),
        }
        for name, numbers in values.items():
            rows[name].append(np.asarray(numbers, dtype=np.float64))
    return pa.table({name: pa.array(rows[name], COLUMNS.field(name).type) for name in COLUMNS.names}, schema=COLUMNS)


def _columns(table: pa.Table) -> list[tuple[Order, Ranked]]:
    abouts = [json.loads(text) for text in table["about"].to_pylist()]
    lists = {name: _split(table[name].combine_chunks()) for name in COLUMNS.names[1:]}
    columns = []
    for row, about in enumerate(abouts):
        own = {name: of[row] for name, of in lists.items()}
        k = len(about["names"])
        z, upper = np.zeros((k, k)), _upper(k)
        z[upper] = own["z"]
        least_p = own["least_p"].reshape(k, k) if len(own["least_p"]) else np.zeros((k, k))
        numbers = (z + z.T, own["low"], own["high"], own["highest"], least_p, own["pair_ends"].reshape(-1, 2))
        place: Place = tuple(about["place"])
        ranked_before = Ranked(place, about["higher_is_better"], tuple(about["names"]), own["values"], own["n"], *numbers)
        columns.append((tuple(about["order"]), ranked_before))
    return columns


@cache
def _upper(k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.triu_indices(k, 1)


def _split(lists: pa.ListArray) -> list[NDArray[Any]]:
    ends = lists.offsets.to_numpy()
    numbers, ends = lists.flatten().to_numpy(), (ends - ends[0]).tolist()
    return [numbers[start:end] for start, end in pairwise(ends)]
