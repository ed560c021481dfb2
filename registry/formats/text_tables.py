"""CSV and TSV files row by row, with line numbers and cells as large as an image."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from qualm.registry.formats.json_stream import not_utf8
from qualm.registry.system.textfiles import is_file

MAX_CELL = 64 * 2**20
"""The longest cell, and line, that is read, in characters: an image of 48 MB in base64."""

EXPORT_COLUMN = "sample_id"
"""A column that tables have which we exported: in those, cells are read as `unescape_formula`."""

_FORMULA = re.compile(r"'*(?:[=@\t\r]|[+-](?!\d*\.?\d+(?:[eE][+-]?\d+)?\Z))")
"""Start of a cell that a spreadsheet reads as a formula, after any number of quotes; numbers are no formulas."""


class TextTableError(Exception):
    """Error of a file that is no text table; names line and reason."""


def text_lines(handle: TextIO) -> Iterator[str]:
    """Yield an open file's lines; csv.Error for one of more than MAX_CELL characters."""
    while line := handle.readline(MAX_CELL + 1):
        if len(line) > MAX_CELL:
            raise csv.Error(f"more than {MAX_CELL:,} characters without the end of a line")
        yield line


def rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of each non-empty row, header first; else TextTableError.

    Tabs separate the cells of `.tsv`, commas those of other files.

    Raises:
        TextTableError: a quote that is never closed, a cell that is too long, bytes that are not UTF-8, or a header with another separator.
    """
    csv.field_size_limit(MAX_CELL)
    line, header = 1, True
    if not is_file(path):
        raise TextTableError("expected a file, got something else")
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.reader(text_lines(handle), dialect="excel-tab" if path.suffix.lower() == ".tsv" else "excel", strict=True)
            for row in reader:
                if row:
                    if header:
                        _need_columns(row, path)
                        header = False
                    yield line, row
                line = reader.line_num + 1
    except UnicodeDecodeError as error:
        raise TextTableError(not_utf8(path)) from error
    except csv.Error as error:
        raise TextTableError(f"line {line}: {error}") from error


def _need_columns(header: list[str], path: Path) -> None:
    """Raise TextTableError if a one-column header seems to use another separator."""
    tabs = path.suffix.lower() == ".tsv"
    for mark, called in ((";", "semicolons"), (",", "commas") if tabs else ("\t", "tabs")):
        if len(header) == 1 and len(names := header[0].split(mark)) > 1 and all(name.strip() for name in names):
            separators = "tabs in a .tsv file" if tabs else "commas in a .csv file (or tabs in a .tsv)"
            raise TextTableError(f"line 1: its columns are parted by {called}; expected {separators}: save it so, or as JSON Lines")


def escape_formula(text: str) -> str:
    """Return a text that spreadsheets do not compute: formulas get a `'` in front.

    >>> [escape_formula(text) for text in ("=1+1", "-1.5", "- a cat", "'=1", "a")]
    ["'=1+1", '-1.5', "'- a cat", "''=1", 'a']
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unescape_formula(text: str) -> str:
    """Return the text that `escape_formula` was given; other texts unchanged.

    >>> [unescape_formula(escape_formula(text)) for text in ("=1+1", "'=1", "'tis")]
    ['=1+1', "'=1", "'tis"]
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
