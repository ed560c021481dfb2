"""Rows of a stranger's Parquet or Arrow file, a few in memory at once."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from qualm.registry.formats.columnar import ColumnarError, read_rows, read_schema
from qualm.registry.recordings.record import RecordingError


def columns(path: Path) -> list[str]:
    """Return the names of the columns; none where the file is not whole. Reads its head or footer only."""
    try:
        return list(read_schema(path).names)
    except ColumnarError:
        return []


def rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (FILE: row N, {column: value}); `columns` may be fields of structs (`doc.query`).

    Raises:
        RecordingError: the file is damaged, or unpacks to too much.
    """
    try:
        for number, row in enumerate(read_rows(path, columns)):
            yield f"{path.name}: row {number}", row
    except ColumnarError as error:
        raise RecordingError(str(error)) from error
