"""Rows of Parquet and Arrow files, and the images in their cells."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._fields import columns_containing, need_columns
from qualm.registry.adapters._official import read_image
from qualm.registry.formats.columnar import ColumnarError, class_names, read_rows, read_schema


def rows(path: Path, columns: list[str] | None = None, context: AdapterContext | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ("FILE: row 3", {column: value}) of a Parquet or Arrow file; else AdapterError.

    Rows are counted from 0. A `ClassLabel` has its name, None for -1. `context` notes rows with an unknown class, and each row's place;
    without it such rows end the run.
    """
    context = context or AdapterContext(path.parent)
    try:
        schema = read_schema(path)
        need_columns(str(path), schema.names, columns or ())
        names = class_names(schema)
        for number, row in enumerate(read_rows(path, None if columns is None else columns_containing(schema.names, columns))):
            where = f"{path}: row {number}"
            context.place[:] = [where]
            with context.record():
                yield where, {k: _class_name(v, names.get(k), f"{where}: {k}") for k, v in row.items()}
    except ColumnarError as error:
        raise AdapterError(str(error)) from error


def _class_name(value: Any, names: list[str] | None, where: str) -> Any:
    """Return names[value], None for null or -1, `value` without `names`; else AdapterError."""
    if names is None or value is None or value == -1:
        return None if names is not None else value
    if not isinstance(value, int) or not 0 <= value < len(names):
        raise AdapterError(f"{where}: expected a class from 0 to {len(names) - 1}, or -1 for none, got {value!r:.60}")
    return names[value]


def cell_image(source: Path, cell: Any, where: str) -> tuple[bytes, str]:
    if isinstance(cell, list):
        if len(cell) != 1:
            raise AdapterError(f"{where}: expected one image, got {len(cell)}; a question has one here")
        cell = cell[0]
    if isinstance(cell, bytes):
        return cell, ""
    if isinstance(cell, dict) and set(cell) <= {"bytes", "path"}:
        if cell.get("bytes"):
            return cell["bytes"], str(cell.get("path") or "")
        cell = cell.get("path")
    if isinstance(cell, str) and cell:
        return read_image(source, (cell,), cell, where).data, cell
    raise AdapterError(f"{where}: expected an image as bytes, or a path, got {cell!r:.60}")
