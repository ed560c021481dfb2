"""Parquet and Arrow files a few rows at a time, as `datasets` hosts (Parquet) and saves (`save_to_disk`: Arrow) them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".arrow")
BATCH = 64
"""Rows, and so images, in memory at once."""
SPAN = 2**31
"""Bytes that a row group may unpack to; one with more is refused before it is read."""
_ARROW_FILE = b"ARROW1"


class ColumnarError(Exception):
    """Error of a Parquet or Arrow file: damaged, or too large for memory."""


def read_schema(path: Path) -> pa.Schema:
    """Return the Arrow schema of a Parquet or Arrow file, or raise ColumnarError."""
    import pyarrow.parquet as pq

    with _explain_errors(path, [0]):
        if path.suffix.lower() == ".arrow":
            with _arrow(path) as batches:
                return next(batches)
        return pq.read_schema(path)


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield {column: value} per row, short floats as short decimals (0.1); else ColumnarError.

    Args:
        columns: to read; of Parquet also fields of structs (`doc.query`). None reads all.
    """
    number = [0]
    with _explain_errors(path, number):
        for batch in _batches(path, columns):
            short = {field.name: field.type for field in batch.schema if _has_short_floats(field.type)}
            for row in batch.to_pylist():
                yield row | {name: _shortest_decimals(row[name], kind) for name, kind in short.items()}
                number[0] += 1


def class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Return {column: its class names} of the schema's `ClassLabel` columns; {} if none."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: list(f["names"]) for name, f in features.items() if isinstance(f, dict) and f.get("_type") == "ClassLabel"}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


@contextmanager
def _explain_errors(path: Path, number: Sequence[int]) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:  # the last two: invalid text, a date out of range
        kind = "Arrow" if path.suffix.lower() == ".arrow" else "Parquet"
        raise ColumnarError(f"{path}: row {number[0]}: truncated or corrupt {kind} ({error}); fetch it again") from error


def _batches(path: Path, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    schema = read_schema(path)
    if twice := sorted({name for name in schema.names if schema.names.count(name) > 1}):
        raise ColumnarError(f"{path}: expected each column once, got twice: {', '.join(twice)}; rename or remove one")
    if path.suffix.lower() == ".arrow":
        with _arrow(path) as parts:
            next(parts)
            for part in parts:
                chosen = part if columns is None else part.select(list(columns))
                yield from (chosen.slice(start, BATCH) for start in range(0, chosen.num_rows, BATCH))
        return
    with pq.ParquetFile(path) as file:
        largest = max((file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)), default=0)
        if largest > SPAN:
            raise ColumnarError(f"{path}: a row group of {largest:,} bytes; rewrite it with smaller ones (`row_group_size`)")
        yield from file.iter_batches(BATCH, columns=None if columns is None else list(columns))


@contextmanager
def _arrow(path: Path) -> Iterator[Iterator[Any]]:
    """Yield an iterator over an open Arrow file: the schema first, then each batch."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        is_file = source.read(len(_ARROW_FILE)) == _ARROW_FILE
        source.seek(0)
        with pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source) as reader:

            def parts() -> Iterator[Any]:
                yield reader.schema
                yield from (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else reader

            yield parts()


def _has_short_floats(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is or contains a float of 16 or 32 bits."""
    import pyarrow.types as types

    if types.is_floating(kind):
        return bool(kind.bit_width < 64)
    return any(_has_short_floats(kind.field(i).type) for i in range(kind.num_fields))


def _shortest_decimals(value: Any, kind: pa.DataType) -> Any:
    """Return a value with floats of 16 or 32 bits rounded to their shortest decimals."""
    import numpy as np
    import pyarrow.types as types

    if value is None or not _has_short_floats(kind):
        return value
    if types.is_floating(kind):
        return float(str((np.float16 if kind.bit_width == 16 else np.float32)(value)))
    if types.is_struct(kind):
        return {field.name: _shortest_decimals(value[field.name], field.type) for field in kind}
    if types.is_map(kind):
        return [(_shortest_decimals(key, kind.key_type), _shortest_decimals(item, kind.item_type)) for key, item in value]
    if isinstance(value, list):  # of any kind of list
        return [_shortest_decimals(item, kind.value_type) for item in value]
    return value
