"""Greedy answers with those sampled beside them as columns: lists over draws 1 to N, also over perturbed variants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry.plugins.column_names import QUESTION
from qualm.registry.plugins.columns import drawn_from, variants_of
from qualm.registry.plugins.internals import Internal
from qualm.registry.sample import CLEAN, GENERATIONS, GREEDY
from qualm.runners.data.aligned import read_samples
from qualm.runners.data.internals import read_internals
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.stage import Stage, StageError


@dataclass(frozen=True)
class Block:
    """Greedy answers of one model, dataset and variant, with their sampled answers as columns."""

    model: str
    dataset: str
    variant: str
    ids: pa.Array
    """(n,) id of each answer's sample."""
    columns: dict[str, pa.ChunkedArray]
    """By name, those that are drawn included: null where a row has fewer draws than were asked for."""
    draws: int
    """Sampled answers per question that were asked for."""
    internals: Path | None = None
    """The file of what was inside the model."""

    def read_internals(self, internals: Sequence[Internal]) -> Iterator[tuple[NDArray[np.int64], dict[str, pa.ChunkedArray]]]:
        """Yield ((k,) rows, {column: values}) of model internals by chunk; StageError: no answer.

        Nothing comes if none are stored. StageError if a sample has no answer.

        One part is in memory at a time. A drawn column holds lists over draws; null if a draw is missing.
        """
        if self.internals is None:
            return
        where = f"{self.internals}, {self.variant}"
        for table in read_internals(self.internals, self.variant, list(dict.fromkeys(one.signal for one in internals))):
            ids = pc.unique(table["sample_id"])
            rows = pc.index_in(ids, value_set=self.ids)
            if rows.null_count:
                raise StageError(f"{self.internals}: sample '{ids.filter(pc.is_null(rows))[0]}' has no answer; run the inference again")
            yield rows.to_numpy(), {one.column: _signal_by_answer(table, ids, one, self.draws, where) for one in internals}


def read_blocks(stage: Stage, reads: Sequence[str]) -> Iterator[Block]:
    """Yield a Block of answers per model, dataset and variant, with the columns in `reads`."""
    of_greedy = [c for c in reads if c in GENERATIONS.names]
    drawn = {c: drawn_from(c) for c in reads if drawn_from(c) and not variants_of(c)}
    perturbed = {c: drawn_from(c) for c in reads if variants_of(c)}
    names = list(dict.fromkeys(["sample_id", "variant", "draw", *of_greedy, *drawn.values(), *perturbed.values()]))
    samples = {name: read_samples(name, folder) for name, folder in stage.inputs["datasets"].items()} if QUESTION in reads else {}
    draws = int(stage.params.get("draws", 0))  # 0 where no estimator reads sampled answers
    for model, files in sorted(stage.inputs["generations"].items()):
        for dataset, path in sorted(files.items()):
            table = read_table(Path(path), GENERATIONS, names)
            for variant in pc.unique(table.filter(pc.equal(table["draw"], GREEDY))["variant"]).to_pylist():
                mine = table.filter(pc.equal(table["variant"], variant))
                greedy = mine.filter(pc.equal(mine["draw"], GREEDY))
                ids, of_block = greedy["sample_id"].combine_chunks(), {c: greedy[c] for c in of_greedy}
                if drawn:
                    of_block |= _sampled_columns(stage, ids, mine, drawn, f"{path}, {variant}")
                for c, of in perturbed.items():
                    none = pa.chunked_array([pa.nulls(greedy.num_rows, pa.list_(table.schema.field(of).type))])
                    of_block[c] = _perturbed(ids, table, of, variants_of(c), draws, str(path)) if variant == CLEAN else none
                if samples:
                    place = pc.index_in(ids, value_set=samples[dataset].ids)
                    of_block[QUESTION] = samples[dataset].table["question"].take(place)
                inside = stage.inputs.get("internals", {}).get(model, {}).get(dataset)
                yield Block(model, dataset, variant, ids, of_block, draws, inside and Path(inside))


def _sampled_columns(stage: Stage, ids: pa.Array, table: pa.Table, drawn: Mapping[str, str], where: str) -> dict[str, pa.ChunkedArray]:
    """Return {column: N sampled values per greedy answer, null if fewer}; count these answers."""
    n = int(stage.params["draws"])
    place = _draw_places(ids, table, n, where)
    some, all_ = np.any(place >= 0, axis=1), np.asarray(np.all(place >= 0, axis=1))
    lacking = {"answers without draws": int((~some).sum()), f"answers with fewer than {n} draws": int((some & ~all_).sum())}
    stage.count(**{name: number for name, number in lacking.items() if number})
    return {column: _gather_lists(table[of], place[:, None]) for column, of in drawn.items()}


def _perturbed(ids: pa.Array, table: pa.Table, of: str, variants: str, n: int, path: str) -> pa.ChunkedArray:
    """Return per clean answer n sampled values of each complete variant, flat; null if none.

    Variants come by name, with their draws 1 to n. A variant that lacks draws is left out of the row; null if none remains.
    """
    names = [v for v in sorted(pc.unique(table["variant"]).to_pylist()) if v != CLEAN and variants in ("all", v, v.partition("@")[0])]
    places = [np.empty((len(ids), 0, n), dtype=np.int64)]
    for name in names:
        mine = np.flatnonzero(pc.equal(table["variant"], name).to_numpy())
        place = _draw_places(ids, table.take(pa.array(mine)), n, f"{path}, {name}")
        places.append(np.where(place >= 0, mine[place], -1)[:, None])
    return _gather_lists(table[of], np.concatenate(places, axis=1))


def _draw_places(ids: pa.Array, table: pa.Table, n: int, where: str) -> NDArray[np.int64]:
    """Return (samples, n) row numbers of sampled answers, -1 if absent; StageError if doubled.

    StageError if a sample has the same draw twice.
    """
    rows = pc.index_in(table["sample_id"], value_set=ids).to_numpy()
    draws = table["draw"].to_numpy().astype(np.int64)
    taken = np.flatnonzero((draws != GREEDY) & (draws <= n) & ~np.isnan(rows.astype(np.float64)))
    place = np.full((len(ids), n), -1, dtype=np.int64)
    place[rows[taken].astype(np.int64), draws[taken] - 1] = taken
    if (place >= 0).sum() != len(taken):
        raise StageError(f"{where}: a sample has the same draw twice; run the inference again")
    return place


def _signal_by_answer(table: pa.Table, ids: pa.Array, internal: Internal, n: int, where: str) -> pa.ChunkedArray:
    """Return each answer's signal, or a list of its n sampled answers' (null if incomplete)."""
    if internal.drawn:
        return _gather_lists(table[internal.signal], _draw_places(ids, table, n, where)[:, None])
    greedy = table.filter(pc.equal(table["draw"], GREEDY))
    return greedy[internal.signal].take(pc.index_in(ids, value_set=greedy["sample_id"].combine_chunks()))


def _gather_lists(values: pa.ChunkedArray, place: NDArray[np.int64]) -> pa.ChunkedArray:
    """Return per row a flat list of the values in its complete groups of places; null if none.

    Args:
        values: by row of a table.
        place: (rows, groups, n), -1 where there is none.
    """
    whole, n = np.all(place >= 0, axis=2), place.shape[2]
    flat_ = values.take(pa.array(place[whole].ravel())).combine_chunks()
    valid = np.asarray(pc.is_valid(flat_).to_numpy(zero_copy_only=False)).reshape(-1, n).all(axis=1)
    complete = np.zeros(whole.shape, dtype=bool)
    complete[whole] = valid
    lengths = complete.sum(axis=1) * n
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    items = flat_.filter(pa.array(np.repeat(valid, n)))
    return pa.chunked_array([pa.ListArray.from_arrays(pa.array(offsets), items, mask=pa.array(lengths == 0))])
