"""Rows of named cells from .tsv, .csv, .xlsx, .json, .jsonl, .parquet or .arrow, one in memory at a time where the format allows.

An .xlsx is a zip of XML: it is refused where it would unpack to more than `MAX_UNPACKED`. A cell with a formula is a fault;
formulas are never computed, and what a spreadsheet program computed of them is not taken for an answer.
"""

import csv
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from qualm.registry.formats.columnar import SUFFIXES as COLUMNAR
from qualm.registry.formats.columnar import ColumnarError, read_rows, read_schema
from qualm.registry.formats.faults import Fault
from qualm.registry.formats.json_stream import JsonStreamError, first_byte, reject_duplicate_keys, too_many_parts, values
from qualm.registry.formats.text_tables import EXPORT_COLUMN, MAX_CELL, text_lines, unescape_formula
from qualm.registry.plugins.extras import install_line
from qualm.registry.recordings.jsonl import rows as json_lines
from qualm.registry.recordings.record import RecordingError

SUFFIXES = (".tsv", ".xlsx", ".json")
"""Suffixes of the tables that VLMEvalKit writes."""
LINES = (".jsonl", ".ndjson")
ALL_SUFFIXES = (*SUFFIXES, ".csv", *LINES, *COLUMNAR)
MAX_UNPACKED = 2**30
FREE, RATIO = 16 * 2**20, 50
"""An .xlsx that unpacks to more than so many times its size is refused, beyond this many bytes."""
MAX_JSON = 2**27

DAMAGED = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error)

Row = tuple[str, dict[str, Any]]

_UNSAFE = re.compile("[\\x00-\\x08\\x0b-\\x1f\\ud800-\\udfff\\ufffe\\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")


class Formula(str):
    """Text of a formula in a spreadsheet cell, to tell it from a value."""


def columns(path: Path) -> list[str]:
    """Return a table's column names; [] if the file is no table or has no rows.

    Of Parquet and Arrow files the schema is read, whether they have rows or not.
    """
    try:
        if path.suffix == ".json":
            return _json_columns(path)
        if path.suffix in COLUMNAR:
            return columnar_columns(path)
        return next((list(row[1]) for row in rows(path) if not isinstance(row, Fault)), [])
    except (RecordingError, OSError):
        return []


def rows(path: Path) -> Iterator[Row | Fault]:
    """Yield (place, {column: cell or None}) or a Fault per table row; else RecordingError."""
    try:
        readers = {".tsv": _tsv, ".csv": _tsv, ".xlsx": _xlsx, ".json": _json, **dict.fromkeys(LINES, json_lines)}
        yield from readers.get(path.suffix, columnar_rows)(path)
    except (OSError, UnicodeDecodeError) as error:
        raise RecordingError(f"{path}: cannot be read as a table: {error}") from error


def columnar_columns(path: Path) -> list[str]:
    """Return a Parquet or Arrow file's column names; [] if it is damaged."""
    try:
        return list(read_schema(path).names)
    except ColumnarError:
        return []


def columnar_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Yield ("FILE: row 0", {column: value}) per row of a Parquet or Arrow file, from row 0."""
    try:
        for number, row in enumerate(read_rows(path, columns)):
            yield f"{path.name}: row {number}", row
    except ColumnarError as error:
        raise RecordingError(str(error)) from error


def _tsv(path: Path) -> Iterator[Row | Fault]:
    csv.field_size_limit(MAX_CELL)
    with path.open(encoding="utf-8-sig", newline="") as handle:
        reader = csv.reader(text_lines(handle), delimiter="\t" if path.suffix == ".tsv" else ",", strict=True)
        try:
            header = next(reader, [])
            written = unescape_formula if EXPORT_COLUMN in header else str
            numbered = ((f"{path.name}:{reader.line_num}", [*map(written, cells)]) for cells in reader if cells)
            yield from _named(path, header, numbered, every_cell=True)
        except csv.Error as error:
            kind = "tab" if path.suffix == ".tsv" else "comma"
            raise RecordingError(f"{path}:{reader.line_num}: not a table of {kind}-separated text: {error}") from error


def _named(path: Path, header: list[Any], lines: Iterator[tuple[str, list[Any]]], every_cell: bool = False) -> Iterator[Row | Fault]:
    """Yield (place, {column: cell or None}) per line, or a Fault if it has too many cells.

    Raise RecordingError if two columns have one name. Too few cells are a fault only if `every_cell`.
    """
    names = [str(name) if name is not None else "" for name in header]
    named = [n for n in names if n]
    if len(set(named)) != len(named):
        raise RecordingError(f"{path}: two columns of one name: {', '.join(sorted({n for n in named if named.count(n) > 1}))}; rename one")
    for where, cells in lines:
        if len(cells) > len(names) and any(c not in (None, "") for c in cells[len(names) :]):
            yield Fault(where, "more cells than columns", f"{len(cells)} of {len(names)}")
            continue
        if every_cell and len(cells) < len(names):
            yield Fault(where, "fewer cells than columns", f"{len(cells)} of {len(names)}")
            continue
        if every_cell and path.suffix == ".tsv" and len(names) > 1 and any("\n" in c and c.count("\t") >= len(names) - 1 for c in cells):
            yield Fault(where, "a cell that holds other rows, by a quotation mark too many", str(len(cells)))
            continue
        cells = [*cells, *[None] * (len(names) - len(cells))]
        yield where, {name: None if cell == "" else cell for name, cell in zip(names, cells, strict=False) if name}


def _xlsx(path: Path) -> Iterator[Row | Fault]:
    try:
        import openpyxl  # type: ignore[import-untyped]
    except ImportError:
        raise RecordingError(f"{path}: Excel tables are read by openpyxl, which is not installed: `{install_line('tables')}`") from None
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    except DAMAGED as error:
        raise RecordingError(f"{path}: not an Excel table: {error}") from error
    most = min(MAX_UNPACKED, max(FREE, RATIO * path.stat().st_size))
    if unpacked > most:
        raise RecordingError(f"{path}: would unpack to {unpacked:,} bytes; above {most:,} it is not opened. Save it as .tsv")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=False, keep_links=False)
    except Exception as error:
        raise RecordingError(f"{path}: not an Excel table ({_line(error)})") from error
    try:
        lines = ([_cell(c) for c in cells] for cells in book.worksheets[0].iter_rows())
        header = next(lines, [])
        numbered = ((f"{path.name}:{n}", cells) for n, cells in enumerate(lines, 2) if any(c is not None for c in cells))
        yield from _named(path, header, numbered)
    except (LookupError, ValueError, TypeError, AttributeError, SyntaxError, *DAMAGED) as error:
        raise RecordingError(f"{path}: damaged Excel table ({_line(error)})") from error
    finally:
        book.close()


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _cell(cell: Any) -> Any:
    if cell.data_type == "f":
        return Formula(cell.value)
    return excel_unescape(cell.value) if isinstance(cell.value, str) else cell.value


def excel_escape(text: str) -> str:
    """Return a text with characters that XML cannot hold written as `_xHHHH_`."""
    return _UNSAFE.sub(lambda match: f"_x{ord(match[0][0]):04X}_{match[0][1:]}", text)


def excel_unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _json(path: Path) -> Iterator[Row | Fault]:
    content = load_json(path)
    if isinstance(content, list):
        for number, row in enumerate(content):
            where = f"{path.name}[{number}]"
            yield (where, row) if isinstance(row, dict) else Fault(where, "not an object", type(row).__name__)
        return
    names, lines = _by_columns(content)
    if not names:
        raise RecordingError(f"{path}: expected a list of rows, or columns of one length, got {type(content).__name__}")
    yield from _named(path, names, ((f"{path.name}[{n}]", cells) for n, cells in enumerate(lines)))


def _by_columns(content: Any) -> tuple[list[str], list[list[Any]]]:
    """Return (column names, rows of cells) of column-wise JSON; ([], []) for other content."""
    if not isinstance(content, dict):
        return [], []
    if isinstance(content.get("columns"), list) and isinstance(content.get("data"), list):
        return content["columns"], [row for row in content["data"] if isinstance(row, list)]
    lists = {k: v for k, v in content.items() if isinstance(v, list)}
    if not lists or len(set(map(len, lists.values()))) > 1:
        return [], []
    return list(lists), [list(row) for row in zip(*lists.values(), strict=True)]


def _json_columns(path: Path) -> list[str]:
    """Return the column names of a JSON list or VLMEvalKit table; [] for any other JSON.

    A table of columns counts as one of VLMEvalKit if the file contains `"prediction"`.
    """
    try:
        if first_byte(path) == b"[":
            _, first = next(values(path, bad=lambda error: None), (0, None))
            return list(first) if isinstance(first, dict) else []
    except JsonStreamError:
        return []
    # Parsing takes far longer than a look at the bytes, and most JSON files in a recording's folder are no tables.
    if path.stat().st_size > MAX_JSON or b'"prediction"' not in path.read_bytes():
        return []
    return _by_columns(load_json(path))[0]


def load_json(path: Path) -> Any:
    """Return a JSON file's value; RecordingError if invalid, too large or keys repeat."""
    if path.stat().st_size > MAX_JSON:
        raise RecordingError(f"{path}: larger than {MAX_JSON:,} bytes; JSON tables are read whole, save it as .tsv")
    text = path.read_bytes()
    if why := too_many_parts(text):
        raise RecordingError(f"{path}: {why}; save it as .tsv")
    try:
        return json.loads(text, object_pairs_hook=reject_duplicate_keys)
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{path}: not JSON: {error}") from error
