"""Whether one file is whole and what its name says it is, and how many records it holds.

A download that failed often leaves something behind: a login page saved as JSON, a Git LFS pointer, a file cut in the
middle. Found here, it costs a line; found by a runner, it costs the night.
"""

from __future__ import annotations

import csv
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

BY_SUFFIX = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".pkl": "pickle",
    ".pickle": "pickle",
    ".safetensors": "safetensors",
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".png": "image",
    ".jpg": "image",
    ".jpeg": "image",
    ".webp": "image",
    ".txt": "text",
    ".md": "text",
}
"""What a file is taken for where its card does not say."""

MAX_CELL = 256 * 2**20
"""Of a table: pictures stand in cells, as base64."""

_HTML = (b"<!doctype", b"<html", b"<head", b"<?xml")
_LFS = b"version https://git-lfs.github.com/spec/"


class FormatError(Exception):
    """What is wrong with a file and what to do; the caller says which file."""


def check_file(path: Path, form: str | None = None) -> int | None:
    """Read a file as what it is said to be.

    Args:
        path: the file.
        form: one of `cards.Format`; None = by its suffix, `any` where that says nothing.

    Returns:
        The number of records (rows, lines, list items, tensors), None where there is no such thing.

    Raises:
        FormatError: it is not a file, cannot be read, is empty, cut short, damaged, or something else altogether.
    """
    form = form or BY_SUFFIX.get(path.suffix.lower(), "any")
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise FormatError("not an ordinary file; only files and folders are taken")
        with path.open("rb") as handle:
            head = handle.read(512)
        if form == "any":
            return None
        _look(head, form)
        records: int | None = _CHECKS[form](path)
        return records
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}") from error


def _look(head: bytes, form: str) -> None:
    if not head:
        raise FormatError("empty file; fetch it again")
    if head.startswith(_LFS):
        raise FormatError("a Git LFS pointer, not the file itself; run `git lfs pull` in the source and add again")
    if form not in ("text", "any") and head.lstrip().lower().startswith(_HTML):
        raise FormatError(f"a web page, not {form}: the download met a login or error page; fetch it again")


def _json(path: Path) -> int | None:
    try:
        value = json.loads(path.read_bytes())
    except json.JSONDecodeError as error:
        cut = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")
        kind = "cut short" if cut else "not JSON"
        raise FormatError(f"{kind}: line {error.lineno}, column {error.colno}: {error.msg}; fetch it again") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}; fetch it again") from error
    if isinstance(value, dict):
        return max((len(v) for v in value.values() if isinstance(v, list)), default=None)
    return len(value) if isinstance(value, list) else None


def _jsonl(path: Path) -> int:
    lines = 0
    with path.open("rb") as handle:
        for number, line in enumerate(handle, 1):
            if line.strip():
                try:
                    json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise FormatError(f"line {number} is not JSON ({error}); the file may be cut short, fetch it again") from error
                lines += 1
    return lines


def _pickle(path: Path) -> int | None:
    from registry.unpickle import UnpickleError, read_pickle

    try:
        value = read_pickle(path)
    except UnpickleError as error:
        raise FormatError(str(error).removeprefix(f"{path}: ")) from error
    return len(value) if isinstance(value, list | tuple | dict) else None


def _safetensors(path: Path) -> int:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as tensors:
            return len(tensors.keys())
    except (SafetensorError, OSError) as error:
        raise FormatError(f"truncated or corrupt safetensors ({error}); fetch it again") from error


def _parquet(path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                file.read_row_group(group)
            return int(file.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"truncated or corrupt Parquet ({error}); fetch it again") from error


def _csv(path: Path) -> int:
    rows = -1
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            for _ in csv.reader(handle, dialect="excel-tab" if path.suffix == ".tsv" else "excel"):
                rows += 1
    except (csv.Error, UnicodeDecodeError) as error:
        raise FormatError(f"not a table of text: {error}; fetch it again") from error
    return max(rows, 0)


def _image(path: Path) -> None:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            image.load()
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        raise FormatError(f"not a whole picture ({str(error).replace(str(path), 'it')}); fetch it again") from error


def _text(path: Path) -> int:
    try:
        with path.open(encoding="utf-8") as handle:
            return sum(1 for _ in handle)
    except UnicodeDecodeError as error:
        raise FormatError(f"not UTF-8 text: {error}") from error


_CHECKS: dict[str, Callable[[Path], Any]] = {
    "json": _json,
    "jsonl": _jsonl,
    "pickle": _pickle,
    "safetensors": _safetensors,
    "parquet": _parquet,
    "csv": _csv,
    "image": _image,
    "text": _text,
}
