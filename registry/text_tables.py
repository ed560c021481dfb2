"""CSV and TSV files a row at a time, with the line each begins on and cells as large as a picture in base64."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from registry.json_stream import not_utf8

MAX_CELL = 256 * 2**20
"""The longest cell that is read, in characters: a picture of 190 MB in base64."""


class TextTableError(Exception):
    """A file that is no table of text: at which line, and why."""


def rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of every row that is not empty, the header first. Tabs part the cells of `.tsv`, commas all others.

    Raises:
        TextTableError: a quote that is never closed, a cell that is too long, or bytes that are not UTF-8.
    """
    csv.field_size_limit(max(MAX_CELL, csv.field_size_limit()))
    line = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.reader(handle, dialect="excel-tab" if path.suffix.lower() == ".tsv" else "excel", strict=True)
            for row in reader:
                if row:
                    yield line, row
                line = reader.line_num + 1
    except UnicodeDecodeError as error:
        raise TextTableError(not_utf8(path)) from error
    except csv.Error as error:
        raise TextTableError(f"line {line}: {error}") from error
