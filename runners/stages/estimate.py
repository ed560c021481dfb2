"""Stage `estimate`: one uncertainty per greedy answer and estimator, from that answer and those sampled beside it.

Estimators are given the answers of many models, datasets and variants at once, since those that compare texts by a model of
inference are fast only in large batches; what they say of a row depends on that row alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry.plugins import registry
from qualm.registry.plugins.column_names import CONTEXT, QUESTION
from qualm.registry.plugins.columns import columns, drawn_from, variants_of
from qualm.registry.plugins.internals import Internal, is_internal, parse_internal
from qualm.registry.plugins.registry import Plugin, PluginError
from qualm.registry.sample import CLEAN, GENERATIONS, GREEDY, UNCERTAINTIES
from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.contracts.nli import NliError
from qualm.runners.contracts.returned import call_plugin, check_array
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import plugin_column, read_samples
from qualm.runners.data.internals import read_internals
from qualm.runners.runtime.precision import stored_value
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.stage import Stage, StageError

KIND = StageKind(
    title="Estimate uncertainty",
    reads=("datasets", "generations", "internals"),
    writes={"uncertainties": "uncertainties.parquet"},
    colour="#54a24b",
)

AT_ONCE = 50_000
"""Greedy answers that are handed to an estimator together, more or less: whole files."""


@dataclass(frozen=True)
class LabelledEstimator:
    label: str
    plugin: Plugin
    columns: Mapping[str, str | None]
    """Positional parameter -> column that it reads."""
    args: dict[str, Any]

    @property
    def reads(self) -> list[str]:
        """Return the columns that are read whole, without model internals."""
        return [column for column in self.columns.values() if column is not None and not is_internal(column)]

    @property
    def internals(self) -> list[Internal]:
        """Internals of the model that it reads, a few answers at a time."""
        return [parse_internal(column) for column in self.columns.values() if column is not None and is_internal(column)]


@dataclass(frozen=True)
class Block:
    """Greedy answers of one model, dataset and variant, with their sampled answers as columns."""

    model: str
    dataset: str
    variant: str
    greedy: pa.Table
    columns: dict[str, pa.ChunkedArray]
    """By name, those that are drawn included: null where a row has fewer draws than were asked for."""
    internals: Path | None = None
    """The file of what was inside the model."""


def run(stage: Stage) -> None:
    """Apply every estimator to all answers; write one table of uncertainties."""
    estimators = [_estimator(ref) for ref in stage.params["estimators"]]
    context = EstimatorContext(stage.settings, Counter())
    parts: list[pa.Table] = []
    try:
        for blocks in _group_blocks(_blocks(stage, sorted({c for e in estimators for c in e.reads}))):
            parts += _estimated(stage, estimators, context, blocks)
    finally:
        stage.count(**context.counters)
    file = stage.scratch / "uncertainties.parquet"
    whole = pa.concat_tables(parts) if parts else UNCERTAINTIES.empty_table()
    write_table(file, whole, UNCERTAINTIES, stage.provenance)
    stage.publish(file, stage.outputs["uncertainties"])


def _estimator(ref: Mapping[str, Any]) -> LabelledEstimator:
    plugin = registry.get("estimators", ref["plugin"])
    try:
        read = columns(plugin, ref["args"])
    except PluginError as error:
        raise StageError(str(error)) from error
    readable = [*GENERATIONS.names, QUESTION]
    unknown = [c for c in read.values() if c is not None and c not in readable and not drawn_from(c) and not is_internal(c)]
    if unknown:
        raise StageError(f"{plugin.path}: reads {', '.join(unknown)}; expected columns of GENERATIONS or of draws: {', '.join(readable)}")
    return LabelledEstimator(ref["label"], plugin, read, ref["args"])


def _group_blocks(blocks: Iterator[Block]) -> Iterator[list[Block]]:
    group: list[Block] = []
    for block in blocks:
        group.append(block)
        if sum(b.greedy.num_rows for b in group) >= AT_ONCE:
            yield group
            group = []
    if group:
        yield group


def _blocks(stage: Stage, reads: list[str]) -> Iterator[Block]:
    of_greedy = [c for c in reads if c in GENERATIONS.names]
    drawn = {c: drawn_from(c) for c in reads if drawn_from(c) and not variants_of(c)}
    perturbed = {c: drawn_from(c) for c in reads if variants_of(c)}
    names = list(dict.fromkeys(["sample_id", "variant", "draw", *of_greedy, *drawn.values(), *perturbed.values()]))
    questions = _questions(stage) if QUESTION in reads else {}
    for model, files in sorted(stage.inputs["generations"].items()):
        for dataset, path in sorted(files.items()):
            table = read_table(Path(path), GENERATIONS, names)
            for variant in pc.unique(table.filter(pc.equal(table["draw"], GREEDY))["variant"]).to_pylist():
                mine = table.filter(pc.equal(table["variant"], variant))
                greedy = mine.filter(pc.equal(mine["draw"], GREEDY))
                of_block = {c: greedy[c] for c in of_greedy}
                if drawn:
                    of_block |= _sampled_columns(stage, greedy, mine, drawn, f"{path}, {variant}")
                for c, of in perturbed.items():
                    none = pa.chunked_array([pa.nulls(greedy.num_rows, pa.list_(table.schema.field(of).type))])
                    of_block[c] = _perturbed(stage, greedy, table, of, variants_of(c), str(path)) if variant == CLEAN else none
                if questions:
                    place = pc.index_in(greedy["sample_id"], value_set=questions[dataset][0])
                    of_block[QUESTION] = questions[dataset][1].take(place)
                inside = stage.inputs.get("internals", {}).get(model, {}).get(dataset)
                yield Block(model, dataset, variant, greedy.select(["sample_id"]), of_block, inside and Path(inside))


def _questions(stage: Stage) -> dict[str, tuple[pa.Array, pa.ChunkedArray]]:
    """Return (sample ids, questions) of every dataset, by name."""
    samples = {name: read_samples(name, folder) for name, folder in stage.inputs["datasets"].items()}
    return {name: (own.ids, own.table["question"]) for name, own in samples.items()}


def _sampled_columns(stage: Stage, greedy: pa.Table, table: pa.Table, drawn: Mapping[str, str], where: str) -> dict[str, pa.ChunkedArray]:
    """Return by column a list of sampled values 1 to N per greedy answer; null if incomplete."""
    n = int(stage.params["draws"])
    place = _draw_places(greedy["sample_id"].combine_chunks(), table, n, where)
    some, all_ = np.any(place >= 0, axis=1), np.asarray(np.all(place >= 0, axis=1))
    lacking = {"answers without draws": int((~some).sum()), f"answers with fewer than {n} draws": int((some & ~all_).sum())}
    stage.count(**{name: number for name, number in lacking.items() if number})
    return {column: _gather_lists(table[of], place[:, None]) for column, of in drawn.items()}


def _perturbed(stage: Stage, greedy: pa.Table, table: pa.Table, of: str, variants: str, path: str) -> pa.ChunkedArray:
    """Return, per clean answer, a list over perturbed variants of lists of sampled values.

    Each row holds a list over variants, by name, with their draws 1 to N. A variant that lacks draws is left out of the row; null if none
    remains.
    """
    n, ids = int(stage.params["draws"]), greedy["sample_id"].combine_chunks()
    names = [v for v in sorted(pc.unique(table["variant"]).to_pylist()) if v != CLEAN and variants in ("all", v, v.partition("@")[0])]
    places = [np.empty((len(ids), 0, n), dtype=np.int64)]
    for name in names:
        mine = np.flatnonzero(pc.equal(table["variant"], name).to_numpy())
        place = _draw_places(ids, table.take(pa.array(mine)), n, f"{path}, {name}")
        places.append(np.where(place >= 0, mine[place], -1)[:, None])
    return _gather_lists(table[of], np.concatenate(places, axis=1))


def _draw_places(ids: pa.Array, table: pa.Table, n: int, where: str) -> NDArray[np.int64]:
    """Return (samples, draws) row numbers of each sampled answer, -1 if absent."""
    rows = pc.index_in(table["sample_id"], value_set=ids).to_numpy()
    draws = table["draw"].to_numpy().astype(np.int64)
    taken = np.flatnonzero((draws != GREEDY) & (draws <= n) & ~np.isnan(rows.astype(np.float64)))
    place = np.full((len(ids), n), -1, dtype=np.int64)
    place[rows[taken].astype(np.int64), draws[taken] - 1] = taken
    if (place >= 0).sum() != len(taken):
        raise StageError(f"{where}: a sample has the same draw twice; run the inference again")
    return place


def _gather_lists(values: pa.ChunkedArray, place: NDArray[np.int64]) -> pa.ChunkedArray:
    """Return lists of the values at each row's places; incomplete groups are left out.

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


def _estimated(stage: Stage, estimators: list[LabelledEstimator], context: EstimatorContext, blocks: list[Block]) -> list[pa.Table]:
    """Return one UNCERTAINTIES table per block and estimator."""
    left_out = stage.params.get("left_out", {})
    by_estimator: list[dict[int, pa.Array | None]] = []
    for estimator in estimators:
        mine = [number for number, block in enumerate(blocks) if estimator.label not in left_out.get(block.model, ())]
        sizes = [blocks[number].greedy.num_rows for number in mine]
        if estimator.internals:
            by_estimator.append({number: _values_from_internals(stage, estimator, blocks[number], context) for number in mine})
            continue
        whole = {c: _joined([blocks[number].columns[c] for number in mine]) for c in estimator.reads if mine}
        values = estimator_values(estimator, whole, sum(sizes), context)
        starts = np.cumsum([0, *sizes]).tolist()
        by_estimator.append({number: values.slice(start, size) for number, start, size in zip(mine, starts, sizes, strict=False)})
    parts = []
    for number, block in enumerate(blocks):
        size = block.greedy.num_rows
        for estimator, by_block in zip(estimators, by_estimator, strict=True):
            if number not in by_block:
                continue
            own = by_block[number]
            if own is None or (size and any(block.columns[c].null_count == size for c in estimator.reads)):
                stage.count(**{"without what an estimator reads": size})  # draws of multiple choice, say: nobody is unscored by that
                continue
            stage.count(uncertainties=len(own), undefined=own.null_count)
            parts.append(_rows(block, estimator.label, own))
    return parts


def _values_from_internals(stage: Stage, estimator: LabelledEstimator, block: Block, context: EstimatorContext) -> pa.Array | None:
    """Return an estimator's values from model internals, read in parts; None if unreadable.

    None where no answer has what it reads.
    """
    values = np.full(block.greedy.num_rows, np.nan)
    readable = False
    signals = list(dict.fromkeys(one.signal for one in estimator.internals))
    tables = read_internals(block.internals, block.variant, signals) if block.internals else iter(())
    for table in tables:
        ids = pc.unique(table["sample_id"])
        rows = pc.index_in(ids, value_set=block.greedy["sample_id"].combine_chunks())
        if rows.null_count:
            raise StageError(f"{block.internals}: sample '{ids.filter(pc.is_null(rows))[0]}' has no answer; run the inference again")
        columns = {name: block.columns[name].take(rows) for name in estimator.reads}
        columns |= {
            one.column: _signal_by_answer(stage, table, ids, one, f"{block.internals}, {block.variant}") for one in estimator.internals
        }
        readable |= all(column.null_count < len(ids) for column in columns.values())
        values[rows.to_numpy(zero_copy_only=False)] = estimator_values(estimator, columns, len(ids), context).to_numpy(zero_copy_only=False)
    return pa.array(values, mask=np.isnan(values)) if readable or not len(values) else None


def _signal_by_answer(stage: Stage, table: pa.Table, ids: pa.Array, signal_column: Internal, where: str) -> pa.ChunkedArray:
    """Return one internal signal per greedy answer, or a list over draws; null if incomplete."""
    column = table[signal_column.signal]
    if signal_column.drawn:
        place = _draw_places(ids, table, int(stage.params["draws"]), where)
        return _gather_lists(column, place[:, None])
    greedy = np.flatnonzero(table["draw"].to_numpy() == GREEDY)
    return column.take(pa.array(greedy)).take(pc.index_in(ids, value_set=table["sample_id"].take(pa.array(greedy)).combine_chunks()))


def _joined(parts: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)


def estimator_values(
    estimator: LabelledEstimator, columns: Mapping[str, pa.ChunkedArray], n_rows: int, context: EstimatorContext
) -> pa.Array:
    """Return the estimator's value of all n rows; null if undefined or an input is null."""
    readable = np.ones(n_rows, dtype=bool)
    for name in columns:
        readable &= pc.is_valid(columns[name]).to_numpy()
    values = np.full(n_rows, np.nan)
    if readable.any():
        chosen = pa.array(readable)
        handed = {name: plugin_column(values.filter(chosen)) for name, values in columns.items()}
        function = registry.load("estimators", estimator.plugin.name)
        first = [context] if estimator.plugin.reads[0] == CONTEXT else []
        arguments = [handed[c] if c is not None else None for c in estimator.columns.values()]
        try:
            where = f"estimator '{estimator.label}'"
            returned = call_plugin(estimator.plugin, where, lambda: function(*first, *arguments, **estimator.args), NliError)
            result = check_array(
                estimator.plugin, f"{where}, one number for each of {readable.sum():,} rows", returned, (int(readable.sum()),)
            )
        except NliError as error:
            raise StageError(f"{estimator.label}: {error}") from error
        # The same draws in another order, or on another machine, differ in the last bits, and what is a tie (every draw the same,
        # clean and perturbed) would pass for more uncertainty or less.
        values[readable] = [stored_value(value) for value in result.tolist()]
    return pa.array(values, mask=np.isnan(values))


def _rows(block: Block, label: str, values: pa.Array) -> pa.Table:
    n = len(values)
    same = {"model": block.model, "dataset": block.dataset, "variant": block.variant, "estimator": label}
    columns = {name: pa.array([text] * n, pa.string()) for name, text in same.items()}
    columns |= {"sample_id": block.greedy["sample_id"], "value": values}
    return pa.table({name: columns[name] for name in UNCERTAINTIES.names}, schema=UNCERTAINTIES)
