"""Samples and answers as aligned arrays: row i of everything is sample i of the dataset, in official order.

Rows are matched by id, never by position. An unknown or repeated id stops the run; missing values are NaN.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry import DATASETS
from qualm.registry.formats.picture_lists import COUNTED, picture_ids
from qualm.registry.sample import ASKED, EVIDENCE, GENERATIONS, GREEDY, SAMPLES, UNCERTAIN
from qualm.runners.data.calibration_split import Precision, calibration_rows
from qualm.runners.runtime.records import RowGroups, read_table
from qualm.runners.runtime.stage import Stage, StageError, read_stage

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FOLD_SEED = 271828
"""Differs from the seed of every other halving, so that the half on which something else was chosen has rows of both folds."""
CROSS = "*"
"""Separator of the fields of a crossed slice: `category*answerable`."""


@dataclass(frozen=True)
class Samples:
    """Samples of a dataset as aligned columns: row i of every array is sample i."""

    name: str
    table: pa.Table
    others: pa.Array | None = None
    """Ids of the dataset's rows that are not among these (`qualm.runners.data.splits`)."""
    _coded: dict[str, Floats] = field(default_factory=dict, repr=False, compare=False)
    _partitions: dict[str, tuple[Ints, list[str]]] = field(default_factory=dict, repr=False, compare=False)

    def filter_table(self, table: pa.Table) -> pa.Table:
        """Return the table without rows about samples of the dataset that this object lacks."""
        return table if self.others is None else table.filter(pc.invert(pc.is_in(table["sample_id"], value_set=self.others)))

    @property
    def n(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def ids(self) -> pa.Array:
        return self.table["sample_id"].combine_chunks()

    @cached_property
    def n_options(self) -> Ints:
        """Return the number of options (n,), 0 for an open-ended question."""
        lengths = pc.fill_null(pc.list_value_length(self.table["choices"]), 0)
        return np.asarray(lengths.to_numpy(), dtype=np.int64)

    @cached_property
    def truth(self) -> Ints:
        """Return the index of the right option (n,), -1 if none is known or the question is open."""
        return np.asarray(pc.fill_null(self.table["answer_index"], -1).to_numpy(), dtype=np.int64)

    @cached_property
    def groups(self) -> Ints:
        """Return the group codes (n,); a sample without a group is its own group."""
        group = pc.fill_null(self.table["group"], "").combine_chunks()
        alone = pc.binary_join_element_wise(pa.scalar("\0"), self.ids, "")
        return rank_texts(pc.if_else(pc.equal(group, ""), alone, group))

    @cached_property
    def answerable(self) -> Floats:
        """Return 1.0 for answerable questions (n,), which is the default, else 0.0."""
        return np.asarray(pc.fill_null(self.table["answerable"], True).to_numpy(), dtype=np.float64)

    @cached_property
    def uncertain(self) -> Floats:
        """Return (n,) 1.0 if marked uncertain (NaN: unmarked); if none is marked, if unanswerable."""
        marks = self.texts(UNCERTAIN)
        if marks.null_count == self.n:
            return 1 - self.answerable
        return np.array([np.nan if value is None else float(value) for value in marks.to_pylist()])

    @cached_property
    def asked_about(self) -> NDArray[np.bool_]:
        """Return a mask (n,) of the rows that ask whether another question is uncertain."""
        return np.asarray(self.texts(ASKED).is_valid().to_numpy(zero_copy_only=False), dtype=bool)

    @cached_property
    def evidence(self) -> list[str | None]:
        """Return a text per sample with facts about its image, for judges; None if it has none."""
        return self.values(EVIDENCE)

    @cached_property
    def fold(self) -> Floats:
        """Return the fold 0 or 1 (n,), by group, equal for every model; all 0 for one group."""
        if len(np.unique(self.groups)) < 2:
            return np.zeros(self.n)
        return calibration_rows(self.groups, 0.5, FOLD_SEED, "groups").astype(np.float64)

    def values(self, name: str) -> list[str | None]:
        """Return a column or meta key as one text per sample; None where a sample has none."""
        values: list[str | None] = self.texts(name).to_pylist()
        return values

    def texts(self, name: str) -> pa.Array:
        """Return a column or meta key as texts, null if empty; of `pictures` the image counts."""
        if name == COUNTED:
            return pa.array([str(len(picture_ids(image_id))) for image_id in self.table["image_id"].to_pylist()], pa.string())
        if name not in self.table.column_names or name == "meta":
            return meta_values(self.table["meta"], name)
        column = self.table[name].combine_chunks()
        if pa.types.is_string(column.type):
            return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        return pa.array([None if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in column.to_pylist()], pa.string())

    def codes(self, name: str) -> Floats:
        """Return (n,) indices of a field's values in their sorted order; NaN without a value.

        A sample without a `group` is its own group.
        """
        if name not in self._coded:
            self._coded[name] = self.groups.astype(np.float64) if name == "group" else _numbered(self.texts(name))
        return self._coded[name]

    def partition(self, fields: str) -> tuple[Ints, list[str]]:
        """Return ((n,) part number, -1 if a field is empty; sorted part names) for `FIELD*FIELD`.

        Returns:
            (n,) the number of each sample's part, -1 where it lacks a value, and the parts' values, sorted.
        """
        if fields in self._partitions:
            return self._partitions[fields]
        columns = [self.values(name) for name in fields.split(CROSS)]
        keys = [None if None in row else CROSS.join(map(str, row)) for row in zip(*columns, strict=True)]
        names = sorted({key for key in keys if key is not None})
        number = {name: i for i, name in enumerate(names)}
        self._partitions[fields] = np.array([-1 if key is None else number[key] for key in keys], dtype=np.int64), names
        return self._partitions[fields]

    def rows_of(self, ids: pa.ChunkedArray | pa.Array, where: str) -> Ints:
        """Return the row (n,) of each id; raise StageError for one that is unknown or repeated."""
        places = pc.index_in(ids, value_set=self.ids)
        if places.null_count:
            unknown = ids.filter(pc.is_null(places))[0].as_py()
            raise StageError(
                f"{where}: sample '{unknown}' is not in dataset '{self.name}'; they were made from different data; run `dvc repro`"
            )
        rows = np.asarray(places, dtype=np.int64)
        counts = np.bincount(rows, minlength=self.n)
        if len(rows) and counts.max() > 1:
            name = self.ids[int(counts.argmax())].as_py()
            raise StageError(f"{where}: sample '{name}' occurs {counts.max()} times, expected once; run the stage that wrote it again")
        return rows


def check_fields(spec_key: str, fields: Sequence[str], datasets: Sequence[Samples]) -> None:
    """Raise StageError, with `spec_key`, if a column or meta key is empty in all datasets."""
    for name in fields:
        if name != "group" and all(samples.texts(name).null_count == samples.n for samples in datasets):
            keys = {key for samples in datasets for chunk in samples.table["meta"].chunks for key in pc.unique(chunk.keys).to_pylist()}
            there = f"keys of their meta are: {', '.join(sorted(keys))}" if keys else "they have no meta"
            kind = "it is empty in all of them" if name in SAMPLES.names else "it is not a field of these samples"
            of = f"dataset{'s' if len(datasets) > 1 else ''} {', '.join(samples.name for samples in datasets)}"
            raise StageError(f"{spec_key}: no sample of {of} has '{name}': {kind}, and {there}")


def score_stage(stage: Stage) -> Stage | None:
    """Return the spec's `score` stage; None without one, or until all its datasets are made."""
    if not Path("specs", stage.spec, "stages", "score.json").is_file():
        return None
    score = read_stage(f"{stage.spec}/score", stage.settings)
    return score if all(Path(folder, "samples.parquet").is_file() for folder in score.inputs["datasets"].values()) else None


def check_slices(stage: Stage) -> None:
    """Raise StageError if no sample has a field of the spec's `slices` or `macro_averages`.

    It checks nothing while datasets are still to be made.
    """
    if score := score_stage(stage):
        datasets = [read_samples(name, folder) for name, folder in sorted(score.inputs["datasets"].items())]
        for what in ("slices", "macro_averages"):
            crossed = [name for name in score.params.get(what, []) if (what, name) != ("macro_averages", DATASETS)]
            check_fields(what, [field for names in crossed for field in names.split(CROSS)], datasets)


def _numbered(values: pa.Array) -> Floats:
    numbers = rank_texts(values)
    return np.where(numbers < 0, np.nan, numbers)


def rank_texts(values: pa.Array) -> Ints:
    """Return each text's index among the sorted distinct texts, (n,); -1 for null."""
    encoded = values.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    rank = np.full(len(order) + 1, -1)
    rank[order] = np.arange(len(order))
    return np.asarray(rank[np.asarray(pc.fill_null(encoded.indices, len(order)))], dtype=np.int64)


def meta_values(column: pa.ChunkedArray, key: str) -> pa.Array:
    """Return the value of a key per row of a map column; null if absent, the last if repeated."""
    parts = [pa.array([], pa.string())]
    for chunk in column.chunks:
        starts = chunk.offsets.to_numpy()
        entries = np.flatnonzero(pc.equal(chunk.keys, key).to_numpy(zero_copy_only=False))
        entries = entries[(entries >= starts[0]) & (entries < starts[-1])]
        place = np.full(len(chunk), -1)
        place[np.searchsorted(starts, entries, side="right") - 1] = entries
        place[chunk.is_null().to_numpy(zero_copy_only=False)] = -1
        parts.append(chunk.items.take(pa.array(place, mask=place < 0)))
    return pa.concat_arrays(parts)


def read_samples(name: str, folder: str | Path) -> Samples:
    """Read the samples of a dataset folder; StageError if ids repeat."""
    path = Path(folder) / "samples.parquet"
    samples = Samples(name, read_table(path, SAMPLES))
    if pc.count_distinct(samples.ids).as_py() != samples.n:
        raise StageError(f"{path}: sample ids are not distinct; every sample needs its own: correct what made it and run that stage again")
    return samples


def greedy_by_variant(path: str | Path, columns: Sequence[str]) -> dict[str, pa.Table]:
    """Return the greedy answers of a generations file by variant, in order of appearance."""
    table = read_greedy(path, list(dict.fromkeys(["sample_id", "variant", "draw", *columns])))
    variants = pc.unique(table["variant"]).to_pylist()
    return {v: table if len(variants) == 1 else table.filter(pc.equal(table["variant"], v)) for v in variants}


def read_greedy(path: str | Path, columns: Sequence[str], variant: str | None = None) -> pa.Table:
    """Return the greedy answers of one variant (None: of all) in a file; maybe 0 rows.

    `columns` must include `draw` and `variant`.
    """
    none = pa.schema([GENERATIONS.field(name) for name in columns]).empty_table()
    parts = [none]
    for group in RowGroups(Path(path), GENERATIONS, columns):
        chosen = pc.equal(group["draw"], GREEDY)
        parts.append(group.filter(chosen if variant is None else pc.and_(chosen, pc.equal(group["variant"], variant))))
    return pa.concat_tables(parts)


def pad_lists(column: pa.ChunkedArray, rows: Ints, n: int, width: int) -> Floats:
    """Return (n, width): list i in row rows[i], padded with NaN; StageError if one is longer.

    StageError if a list is longer than `width`.
    """
    result = np.full((n, width), np.nan)
    values, lengths = flatten_lists(column)
    if lengths.max(initial=0) > width:
        raise StageError(f"option_logits: a row has {lengths.max()} numbers, but no question has more than {width} options")
    owner = np.repeat(rows, lengths)
    place = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    result[owner, place] = values
    return result


def flatten_lists(column: pa.ChunkedArray) -> tuple[Floats, Ints]:
    """Return (all numbers of a list column in one array, each list's length; null: 0)."""
    whole = column.combine_chunks()
    return np.asarray(pc.list_flatten(whole), dtype=np.float64), np.asarray(pc.fill_null(pc.list_value_length(whole), 0), dtype=np.int64)


def option_probabilities(samples: Samples, table: pa.Table, where: str, precision: Precision = "double") -> Floats:
    """Return (n, K) softmax of option logits, NaN rows if undefined; StageError on bad counts.

    In single precision every step is rounded to float32.

    Raises:
        StageError: a row has another number of logits than options.
    """
    rows = samples.rows_of(table["sample_id"], where)
    width = int(samples.n_options.max(initial=0))
    lengths = flatten_lists(table["option_logits"])[1]
    wrong = np.flatnonzero((lengths > 0) & (lengths != samples.n_options[rows]))
    if len(wrong):
        name, expected = table["sample_id"][int(wrong[0])].as_py(), samples.n_options[rows[wrong[0]]]
        raise StageError(f"{where}: sample '{name}': {lengths[wrong[0]]} option logits for {expected} options")
    logits = pad_lists(table["option_logits"], rows, samples.n, width)
    exists = np.arange(width) < samples.n_options[:, None]
    whole = (np.isfinite(logits) | ~exists).all(axis=1) & (samples.n_options > 0)
    kind = np.float32 if precision == "single" else np.float64
    probs = np.full(logits.shape, np.nan, dtype=kind)
    if whole.any():
        masked = np.where(exists[whole], logits[whole], -np.inf).astype(kind)
        distance = (masked - masked.max(axis=1, keepdims=True)).astype(np.float64)
        powers = np.exp(distance).astype(kind)  # in float32 numpy's differs from processor to processor; the nearest float32 does not
        probs[whole] = np.where(exists[whole], powers / powers.sum(axis=1, keepdims=True), np.nan)
    return probs


def plugin_column(values: pa.ChunkedArray) -> Any:
    """Return a column as plugins read it: floats (n,), texts, arrays or nested lists."""
    if pa.types.is_list(values.type) and not pa.types.is_floating(values.type.value_type):
        inner = values.combine_chunks()
        items = plugin_column(pa.chunked_array([pc.list_flatten(inner)], values.type.value_type))
        ends = np.cumsum(np.asarray(pc.list_value_length(inner))).tolist()
        return [items[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    if pa.types.is_list(values.type):
        numbers, lengths = flatten_lists(values)
        return np.split(numbers, np.cumsum(lengths)[:-1]) if len(lengths) else []
    if pa.types.is_string(values.type):
        return values.to_pylist()
    return values.to_numpy().astype(np.float64)


def plugin_columns(columns: Mapping[str, pa.ChunkedArray], among: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], dict[str, Any]]:
    """Return (mask (n,) of the rows with all columns, name -> values there); {} for no row.

    Args:
        among: (n,) the rows to choose from.

    Returns:
        The values are converted as by `plugin_column`.
    """
    rows = among.copy()
    for values in columns.values():
        rows &= pc.is_valid(values).to_numpy(zero_copy_only=False)
    chosen = pa.array(rows)
    return rows, {name: plugin_column(values.filter(chosen)) for name, values in columns.items()} if rows.any() else {}
