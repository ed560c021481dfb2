"""Write and read Parquet tables between stages: declared schema, atomic, equal bytes for equal rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from qualm.registry.sample import AS_GIVEN
from qualm.registry.system import atomic
from qualm.registry.system.atomic import create_folder
from qualm.registry.text import ProjectError
from qualm.runners.runtime.precision import FINEST, round_result
from qualm.runners.runtime.stage import Stage

_NOTHING = (
    "{}: expected a Parquet table, found nothing; `qualm plan SPEC` shows which stage makes it, `dvc pull` fetches what others computed"
)

_REMEDY = "; `qualm run SPEC` re-creates it"

GROUP_ROWS = 64 * 1024
"""Maximum rows of a row group."""


class RecordError(ProjectError):
    """A table is missing, damaged, or has other columns than its schema."""


def write_table(
    path: Path, rows: pa.Table | Sequence[Mapping[str, Any]], schema: pa.Schema, provenance: Mapping[str, Any] | None = None
) -> None:
    """Write rows, doubles rounded, as a Parquet table of `schema`, atomically.

    Optional columns of the schema are left out if all their values are null.

    Doubles are rounded as results are (`qualm.runners.runtime.precision`), except in columns marked `AS_GIVEN`.

    Args:
        path: folders are created; an existing file is replaced once the new one is complete.
        rows: a table or row dicts; missing keys become null.
        schema: from `qualm.registry.sample`.
        provenance: facts that are equal in every run of the stage (no times or hosts).
    """
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=schema)
    table = _used(_rounded(_conform(table, schema, str(path)), schema), schema)
    table = table.replace_schema_metadata(_metadata(schema, provenance))
    with atomic.file(path) as partial:
        pq.write_table(table, partial, compression="zstd", row_group_size=GROUP_ROWS)


def publish_table(stage: Stage, name: str, rows: pa.Table | Sequence[Mapping[str, Any]], schema: pa.Schema) -> None:
    """Write one table of the stage's outputs as Parquet, and publish it."""
    file = stage.scratch / f"{name}.parquet"
    write_table(file, rows, schema, stage.provenance)
    stage.publish(file, stage.outputs[name])


def make_table(schema: pa.Schema, texts: Mapping[str, str], columns: Mapping[str, pa.Array]) -> pa.Table:
    """Return a table of a schema: columns (n,), and texts that are the same in all n rows."""
    n = len(next(iter(columns.values())))
    filled = {**{name: pa.repeat(pa.scalar(text, pa.string()), n) for name, text in texts.items()}, **columns}
    return pa.table({name: filled[name] for name in schema.names}, schema=schema)


def write_json(path: Path, value: Any) -> None:
    """Overwrite a file with indented JSON with sorted keys; equal values give equal bytes."""
    path.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


def write_parts(path: Path, parts: Iterable[pa.Table], schema: pa.Schema, provenance: Mapping[str, Any] | None = None) -> None:
    """Write tables as one Parquet table, in order, doubles rounded, one in memory at a time.

    The bytes equal those of `write_table`. The schema must have no column that is written only if it has values.
    """
    with (
        atomic.file(path) as partial,
        pq.ParquetWriter(partial, schema.with_metadata(_metadata(schema, provenance)), compression="zstd") as writer,
    ):
        rest, is_empty = schema.empty_table(), True
        for part in parts:
            # Groups have a fixed size, so that the parts do not change the bytes.
            rest = pa.concat_tables([rest, _rounded(_conform(part, schema, str(path)), schema)])
            while rest.num_rows >= GROUP_ROWS:
                writer.write_table(rest.slice(0, GROUP_ROWS).combine_chunks(), GROUP_ROWS)
                rest, is_empty = rest.slice(GROUP_ROWS), False
        if rest.num_rows or is_empty:
            writer.write_table(rest.combine_chunks(), GROUP_ROWS)


def _metadata(schema: pa.Schema, provenance: Mapping[str, Any] | None) -> dict[bytes, bytes] | None:
    extra = {b"qualm": json.dumps(provenance, sort_keys=True).encode()} if provenance else {}
    return {**(schema.metadata or {}), **extra} or None


def read_table(path: Path, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet file, or all of a folder in name order; RecordError for other columns."""
    expected = schema if columns is None else pa.schema([schema.field(c) for c in columns])
    tables = []
    for file in _files(path):
        try:
            with pq.ParquetFile(file) as reader:  # `pq.read_table` would import pandas
                present = None if columns is None else [name for name in columns if name in reader.schema_arrow.names]
                tables.append(_conform(reader.read(present), expected, str(file), _REMEDY))
        except (pa.ArrowInvalid, OSError) as error:
            raise RecordError(f"{file}: not a readable Parquet table: {error}{_REMEDY}") from error
    return pa.concat_tables(tables)


class RowGroups:
    """Row groups of a Parquet table or of a folder of tables; iterating reads one at a time.

    Args:
        columns: default columns to read.
        words: columns with few different texts, read as dictionaries.

    Raises:
        RecordError: a file is missing, or no Parquet table.
    """

    def __init__(self, path: Path, schema: pa.Schema, columns: Sequence[str], words: Sequence[str] = ()) -> None:
        coded = [pa.field(f.name, pa.dictionary(pa.int32(), f.type)) if f.name in words else f for f in schema]
        self._schema, self._columns = pa.schema(coded), columns
        try:
            self._files = [(file, pq.ParquetFile(file, read_dictionary=list(words))) for file in _files(path)]
        except (pa.ArrowInvalid, OSError) as error:
            raise RecordError(f"{path}: not a readable Parquet table: {error}{_REMEDY}") from error
        self._places = [(number, group) for number, (_, reader) in enumerate(self._files) for group in range(reader.num_row_groups)]

    def __len__(self) -> int:
        return len(self._places)

    def read(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Read one row group, by its number from 0.

        Raises:
            RecordError: the table lacks a column, or is damaged.
        """
        file_number, group = self._places[number]
        file, reader = self._files[file_number]
        names = self._columns if columns is None else columns
        present = [name for name in names if name in reader.schema_arrow.names]
        try:
            schema = pa.schema([self._schema.field(n) for n in names])
            return _conform(reader.read_row_group(group, present), schema, str(file), _REMEDY)
        except (pa.ArrowInvalid, OSError) as error:
            raise RecordError(f"{file}: not a readable Parquet table: {error}{_REMEDY}") from error

    def __iter__(self) -> Iterator[pa.Table]:
        return (self.read(place) for place in range(len(self)))


def _files(path: Path) -> list[Path]:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files or not all(f.is_file() for f in files):
        raise RecordError(_NOTHING.format(path))
    for file in files:
        read_schema(file)
    return files


def read_schema(path: Path) -> pa.Schema:
    """Return the schema of a Parquet file; raise RecordError for other files."""
    try:
        return pq.read_schema(path)
    except FileNotFoundError as error:
        raise RecordError(_NOTHING.format(path)) from error
    except (pa.ArrowInvalid, OSError) as error:
        raise RecordError(f"{path}: not a readable Parquet table: {error}{_REMEDY}") from error


def check_columns(path: Path, schema: pa.Schema) -> list[Path]:
    """Return the files of a table or folder; RecordError for damage or other columns."""
    files = _files(path)
    for file in files:
        actual = read_schema(file)
        _check_names(actual, schema, str(file), _REMEDY)
        _refuse_extra(actual, schema, str(file), _REMEDY)
    return files


def read_provenance(path: Path) -> dict[str, Any]:
    """Return the provenance in a table's metadata, {} if none; RecordError if unreadable."""
    raw = (read_schema(path).metadata or {}).get(b"qualm")
    return json.loads(raw) if raw else {}


def iterate_rows(path: Path, schema: pa.Schema, columns: Sequence[str] | None = None, batch_size: int = 4096) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, or of a folder's in name order, as dicts of some columns.

    Raises:
        RecordError: a file is missing, damaged, or lacks a column.
    """
    for file in _files(path):
        _check_names(read_schema(file), schema, str(file), _REMEDY)
        try:
            for batch in pq.ParquetFile(file).iter_batches(batch_size, columns=list(columns or schema.names)):
                yield from batch.to_pylist()
        except (pa.ArrowInvalid, OSError) as error:
            raise RecordError(f"{file}: not a readable Parquet table: {error}{_REMEDY}") from error


def write_csv(path: Path, fields: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write row dicts as CSV, floats rounded as results; ValueError for unknown keys."""
    write_csv_cells(path, fields, (_cells_in_field_order(row, fields) for row in rows))


def _cells_in_field_order(row: Mapping[str, Any], fields: Sequence[str]) -> list[Any]:
    if others := row.keys() - set(fields):
        raise ValueError(f"expected fields {', '.join(fields)}, got also {', '.join(sorted(others))}")
    return [row.get(field) for field in fields]


def write_csv_cells(path: Path, fields: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows of values, in the order of the fields, as CSV, floats rounded as results."""
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(fields)
        writer.writerows([round_result(cell) if isinstance(cell, float) else cell for cell in row] for row in rows)


class ShardWriter:
    """Writer of rows to numbered Parquet files (`00000.parquet`...) of bounded size.

    Use it as a context. The boundaries depend only on the rows, so equal rows give equal bytes. Shards of images have 64 to 80 MiB plus at
    most one image.
    """

    GROUP_BYTES = 16 * 2**20
    """Bytes of images that end a row group, which is in memory at once."""

    def __init__(self, folder: Path, schema: pa.Schema, shard_bytes: int = 64 * 2**20, row_group: int = 512) -> None:
        self.folder, self.schema, self.shard_bytes, self.row_group = folder, schema, shard_bytes, row_group
        self.rows = 0
        self._shard = 0
        self._written = 0
        self._pending: list[Mapping[str, Any]] = []
        self._pending_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        create_folder(folder)

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def extend(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            self.write(row)

    def write(self, row: Mapping[str, Any]) -> None:
        self._pending.append(row)
        self.rows += 1
        if (image := row.get("image")) is not None:
            self._pending_bytes += len(image["bytes"] or b"")
        if len(self._pending) >= self.row_group or self._pending_bytes >= self.GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        if self._writer is None and self._shard == 0:  # write an empty table too
            self._open()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _open(self) -> pq.ParquetWriter:
        self._writer = pq.ParquetWriter(self.folder / f"{self._shard:05d}.parquet", self.schema, compression="zstd")
        self._shard += 1
        self._written = 0
        return self._writer

    def _flush(self) -> None:
        if not self._pending:
            return
        writer = self._writer or self._open()
        table = pa.Table.from_pylist([dict(r) for r in self._pending], schema=self.schema)
        self._pending, self._pending_bytes = [], 0
        writer.write_table(table)
        self._written += table.nbytes
        if self._written >= self.shard_bytes:
            writer.close()
            self._writer = None


class TableWriter(ShardWriter):
    """Writer of rows to one Parquet file, published if the context ends without an error."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        super().__init__(path.with_name(f".{path.stem}"), schema, shard_bytes=2**62)
        self.path = path

    def __exit__(self, *error: object) -> None:
        self.close()
        if error[0] is None:
            atomic.publish(self.folder / "00000.parquet", self.path)
            self.folder.rmdir()


def _rounded(table: pa.Table, schema: pa.Schema) -> pa.Table:
    for place, field in enumerate(schema):
        if pa.types.is_float64(field.type) and field.metadata != AS_GIVEN:
            column = table.column(place)
            # Adding 0 turns -0.0 into 0.0, which has other bytes.
            numbers = np.round(column.to_numpy(), FINEST) + 0.0
            table = table.set_column(place, field, pa.array(numbers, field.type, mask=column.is_null().to_numpy()))
    return table


def _check_names(actual: pa.Schema, expected: pa.Schema, where: str, remedy: str = "") -> None:
    missing = [f.name for f in expected if f.name not in actual.names and f.name not in _optional_columns(expected)]
    if missing:
        raise RecordError(f"{where}: expected columns {', '.join(expected.names)}; missing {', '.join(missing)}{remedy}")


def _refuse_extra(actual: pa.Schema, expected: pa.Schema, where: str, remedy: str = "") -> None:
    if extra := [name for name in actual.names if name not in expected.names]:
        raise RecordError(f"{where}: columns that the schema does not know: {', '.join(extra)}{remedy}")


def _optional_columns(schema: pa.Schema) -> set[str]:
    """Return the names of columns that a table omits if all their values are null."""
    return {f.name for f in schema if b"written" in (f.metadata or {})}


def _used(table: pa.Table, schema: pa.Schema) -> pa.Table:
    rare = _optional_columns(schema)
    return table.drop_columns([name for name in rare if table[name].null_count == table.num_rows]) if rare else table


def _conform(table: pa.Table, schema: pa.Schema, where: str, remedy: str = "") -> pa.Table:
    _check_names(table.schema, schema, where, remedy)
    for field in (f for f in schema if f.name not in table.column_names):
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    _refuse_extra(table.schema, schema, where, remedy)
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise RecordError(f"{where}: does not fit its schema: {error}{remedy}") from error
