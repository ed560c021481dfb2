"""Samples and answers as aligned arrays: row i of everything is sample i of the dataset, in official order.

Every number that is scored passes through here, so rows are matched by id, never by position; an id that is unknown or
occurs twice stops the run, and what is missing is NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry.formats.picture_lists import COUNTED, picture_ids
from qualm.registry.sample import ASKED, EVIDENCE, GENERATIONS, GREEDY, SAMPLES, UNCERTAIN
from qualm.runners.data.calibration_split import Precision, calibration_rows
from qualm.runners.runtime.records import RowGroups, read_table
from qualm.runners.runtime.stage import Stage, StageError, read_stage

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FOLD_SEED = 271828
"""Another than that of any other halving, so that the half on which something else was chosen holds rows of both folds."""
CROSS = "*"
"""Between fields whose combinations of values are slices: `category*answerable`."""


@dataclass(frozen=True)
class Samples:
    """One dataset's samples."""

    name: str
    table: pa.Table
    others: pa.Array | None = None
    """Ids of rows of the dataset that are not among these, if there are any (`qualm.runners.data.splits`)."""
    sides: int = 1
    """How many models' rows these are, all of one behind all of another (`qualm.runners.scoring.paired_tests`)."""
    _coded: dict[tuple[str, bool], Floats] = field(default_factory=dict, repr=False, compare=False)

    def kept(self, table: pa.Table) -> pa.Table:
        """A table without its rows about samples of the dataset that are not among these."""
        return table if self.others is None else table.filter(pc.invert(pc.is_in(table["sample_id"], value_set=self.others)))

    @property
    def n(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def ids(self) -> pa.Array:
        return self.table["sample_id"].combine_chunks()

    @cached_property
    def n_options(self) -> Ints:
        """0 for an open-ended question."""
        lengths = pc.fill_null(pc.list_value_length(self.table["choices"]), 0)
        return np.asarray(lengths.to_numpy(), dtype=np.int64)

    @cached_property
    def truth(self) -> Ints:
        """Place of the right option, -1 where there is none."""
        return np.asarray(pc.fill_null(self.table["answer_index"], -1).to_numpy(), dtype=np.int64)

    @cached_property
    def groups(self) -> Ints:
        """A code per group; a sample without a group is one of its own."""
        group = pc.fill_null(self.table["group"], "").combine_chunks()
        alone = pc.binary_join_element_wise(pa.scalar("\0"), self.ids, "")
        return places(pc.if_else(pc.equal(group, ""), alone, group))

    @cached_property
    def answerable(self) -> Floats:
        """1 where the question can be answered; what says nothing can."""
        return np.asarray(pc.fill_null(self.table["answerable"], True).to_numpy(), dtype=np.float64)

    @cached_property
    def uncertain(self) -> Floats:
        """1 where the question is meant to be uncertain: by the dataset's `uncertain:`, NaN where that is undefined; else unanswerable."""
        marks = self.texts(UNCERTAIN)
        if marks.null_count == self.n:
            return 1 - self.answerable
        return np.array([np.nan if value is None else float(value) for value in marks.to_pylist()])

    @cached_property
    def asked_about(self) -> NDArray[np.bool_]:
        """Rows that ask whether another question is uncertain."""
        return np.asarray(self.texts(ASKED).is_valid().to_numpy(zero_copy_only=False), dtype=bool)

    @cached_property
    def evidence(self) -> list[str | None]:
        """What is known of each sample's picture, for judges."""
        return self.values(EVIDENCE)

    @cached_property
    def fold(self) -> Floats:
        """0 or 1: which half of the groups each row is in, the same for every model. All 0 where there is one group only."""
        if len(np.unique(self.groups)) < 2:
            return np.zeros(self.n)
        return calibration_rows(self.groups, 0.5, FOLD_SEED, "groups").astype(np.float64)

    def values(self, name: str) -> list[str | None]:
        """A column or a meta key as text, None where a sample has none."""
        values: list[str | None] = self.texts(name).to_pylist()
        return values

    def texts(self, name: str) -> pa.Array:
        """The same as an Arrow array, which takes a tenth of the memory. `pictures` is how many a sample has, as in `where:`."""
        if name == COUNTED:
            return pa.array([str(len(picture_ids(image_id))) for image_id in self.table["image_id"].to_pylist()], pa.string())
        if name not in self.table.column_names or name == "meta":
            return of_meta(self.table["meta"], name)
        column = self.table[name].combine_chunks()
        if pa.types.is_string(column.type):
            return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        return pa.array([None if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in column.to_pylist()], pa.string())

    def codes(self, name: str, apart: bool = False) -> Floats:
        """A number for each value of a column or a meta key, in order of the values; NaN where a sample has none.

        A sample without a `group` is a group of its own. With `apart` the same value is another one on each side.
        """
        if (name, apart) not in self._coded:
            numbers = self.groups.astype(np.float64) if name == "group" else _numbered(self.texts(name))
            if apart and self.sides > 1:
                side = np.repeat(np.arange(self.sides), self.n // self.sides)
                numbers = numbers * self.sides + side
            self._coded[name, apart] = numbers
        return self._coded[name, apart]

    def rows_of(self, ids: pa.ChunkedArray | pa.Array, where: str) -> Ints:
        """Return the row of each id; StageError for an id that is missing or occurs twice."""
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


def check_fields(what: str, fields: Sequence[str], datasets: Sequence[Samples]) -> None:
    """Raise StageError where a column or meta key is of no sample."""
    for name in fields:
        if name != "group" and all(samples.texts(name).null_count == samples.n for samples in datasets):
            keys = {key for samples in datasets for chunk in samples.table["meta"].chunks for key in pc.unique(chunk.keys).to_pylist()}
            there = f"keys of their meta are: {', '.join(sorted(keys))}" if keys else "they have no meta"
            kind = "it is empty in all of them" if name in SAMPLES.names else "it is not a field of these samples"
            of = f"data set{'s' if len(datasets) > 1 else ''} {', '.join(samples.name for samples in datasets)}"
            raise StageError(f"{what}: no sample of {of} has '{name}': {kind}, and {there}")


def check_slices(stage: Stage) -> None:
    """Raise StageError where the spec of a stage has a slice that no sample has.

    Called before anything is asked of a model. Nothing is checked while data sets are still to be made.
    """
    if not Path("specs", stage.spec, "stages", "score.json").is_file():
        return
    score = read_stage(f"{stage.spec}/score", stage.settings)
    folders: dict[str, str] = score.inputs["datasets"]
    if all(Path(folder, "samples.parquet").is_file() for folder in folders.values()):
        fields = [field for crossed in score.params["slices"] for field in crossed.split(CROSS)]
        check_fields("slices", fields, [read_samples(name, folder) for name, folder in sorted(folders.items())])


def _numbered(values: pa.Array) -> Floats:
    numbers = places(values)
    return np.where(numbers < 0, np.nan, numbers)


def places(values: pa.Array) -> Ints:
    """The place of each text among the distinct ones in their order, -1 of null."""
    encoded = values.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    rank = np.full(len(order) + 1, -1)
    rank[order] = np.arange(len(order))
    return np.asarray(rank[np.asarray(pc.fill_null(encoded.indices, len(order)))], dtype=np.int64)


def of_meta(column: pa.ChunkedArray, key: str) -> pa.Array:
    """What each row of a column of maps has under a key, null where it has none; of several entries the last."""
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
    """The samples of a dataset folder, ids checked to be distinct."""
    path = Path(folder) / "samples.parquet"
    samples = Samples(name, read_table(path, SAMPLES))
    if pc.count_distinct(samples.ids).as_py() != samples.n:
        raise StageError(f"{path}: sample ids are not distinct; every sample needs its own: correct what made it and run that stage again")
    return samples


def greedy_by_variant(path: str | Path, columns: Sequence[str]) -> dict[str, pa.Table]:
    """The greedy answers of a generations file, by variant, variants in order of appearance."""
    table = read_greedy(path, list(dict.fromkeys(["sample_id", "variant", "draw", *columns])))
    variants = pc.unique(table["variant"]).to_pylist()
    return {v: table if len(variants) == 1 else table.filter(pc.equal(table["variant"], v)) for v in variants}


def read_greedy(path: str | Path, columns: Sequence[str], variant: str | None = None) -> pa.Table:
    """The greedy answers of a generations file, of one variant or of all; others are left out while it is read.

    `draw` and `variant` are among `columns`.
    """
    none = pa.schema([GENERATIONS.field(name) for name in columns]).empty_table()
    parts = [none]
    for group in RowGroups(Path(path), GENERATIONS, columns):
        chosen = pc.equal(group["draw"], GREEDY)
        parts.append(group.filter(chosen if variant is None else pc.and_(chosen, pc.equal(group["variant"], variant))))
    return pa.concat_tables(parts)


def padded(column: pa.ChunkedArray, rows: Ints, n: int, width: int) -> Floats:
    """A list column as (n, width) with NaN where a row or an entry is missing."""
    result = np.full((n, width), np.nan)
    values, lengths = flat(column)
    if lengths.max(initial=0) > width:
        raise StageError(f"option_logits: a row has {lengths.max()} numbers, but no question has more than {width} options")
    owner = np.repeat(rows, lengths)
    place = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    result[owner, place] = values
    return result


def flat(column: pa.ChunkedArray) -> tuple[Floats, Ints]:
    """All numbers of a list column in a row, and how many each entry has; null counts as none."""
    whole = column.combine_chunks()
    return np.asarray(pc.list_flatten(whole), dtype=np.float64), np.asarray(pc.fill_null(pc.list_value_length(whole), 0), dtype=np.int64)


def option_probabilities(samples: Samples, table: pa.Table, where: str, precision: Precision = "double") -> Floats:
    """(n, K) softmax over each question's own options; a whole row of NaN where its logits are missing or not finite.

    In single precision every step is rounded to float32, as it is where logits are float32 and nothing widens them.

    Raises:
        StageError: a row with another number of logits than its question has options.
    """
    rows = samples.rows_of(table["sample_id"], where)
    width = int(samples.n_options.max(initial=0))
    lengths = flat(table["option_logits"])[1]
    wrong = np.flatnonzero((lengths > 0) & (lengths != samples.n_options[rows]))
    if len(wrong):
        name, expected = table["sample_id"][int(wrong[0])].as_py(), samples.n_options[rows[wrong[0]]]
        raise StageError(f"{where}: sample '{name}': {lengths[wrong[0]]} option logits for {expected} options")
    logits = padded(table["option_logits"], rows, samples.n, width)
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


def column(values: pa.ChunkedArray) -> Any:
    """A column as a plugin gets it: list of arrays, list of strings, an array; of draws a list of these per row."""
    if pa.types.is_list(values.type) and not pa.types.is_floating(values.type.value_type):
        inner = values.combine_chunks()
        items = column(pa.chunked_array([pc.list_flatten(inner)], values.type.value_type))
        ends = np.cumsum(np.asarray(pc.list_value_length(inner))).tolist()
        return [items[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    if pa.types.is_list(values.type):
        numbers, lengths = flat(values)
        return np.split(numbers, np.cumsum(lengths)[:-1]) if len(lengths) else []
    if pa.types.is_string(values.type):
        return values.to_pylist()
    return values.to_numpy().astype(np.float64)
