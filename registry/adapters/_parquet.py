"""Rows of Parquet files as Hugging Face `datasets` writes them, and the pictures in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from registry.adapters import AdapterError
from registry.adapters._official import whole_picture
from registry.sample import Image

ROWS = 64
"""Rows in memory at a time; each may hold a picture."""


def read_parquet(paths: Sequence[Path], what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows in the order of the files, each with the place it stands at ("FILE: row 3"), counted from 0 in each file.

    Raises:
        AdapterError: a file is no whole Parquet file, or all are empty.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    any_row = False
    for path in paths:
        number = 0
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(ROWS):
                    for row in batch.to_pylist():
                        any_row = True
                        yield f"{path}: row {number}", row
                        number += 1
        except (pa.ArrowException, OSError) as error:
            raise AdapterError(f"{path}: expected {what} as Parquet: {error}; fetch it again") from error
    if not any_row:
        raise AdapterError(f"{', '.join(map(str, paths))}: expected {what}, got no rows")


def picture(value: Any, image_id: str, where: str) -> Image:
    """A picture of a row: bytes, or the struct of bytes and path that `datasets` has for one.

    Raises:
        AdapterError: it is neither, or no whole picture.
    """
    data, path = (value.get("bytes"), value.get("path")) if isinstance(value, dict) else (value, None)
    if not isinstance(data, bytes) or not data:
        raise AdapterError(f"{where}: expected the bytes of a picture, got {value!r:.60}")
    return Image(image_id, whole_picture(data, where), path if isinstance(path, str) else "")
