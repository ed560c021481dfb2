"""Checks of a file: complete, of the format of its name, and its number of records."""

import codecs
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qualm.registry.formats import pictures
from qualm.registry.formats.archives import FREE, RATIO, ArchiveError, check_zip
from qualm.registry.formats.columnar import ColumnarError, read_rows
from qualm.registry.formats.json_stream import JsonStreamError, count, lines, not_utf8
from qualm.registry.formats.text_tables import TextTableError, rows

BY_SUFFIX = {
    **{f".{name}": name for name in ("json", "jsonl", "pickle", "safetensors", "parquet", "arrow", "csv", "zip")},
    ".ndjson": "jsonl",
    ".pkl": "pickle",
    ".tsv": "csv",
    ".txt": "text",
    ".md": "text",
}
"""Suffix -> format of files whose card does not say; images have those of `pictures.suffixes`."""

_HTML = (b"<!doctype", b"<html", b"<head", b"<?xml")
MANY_ROWS, BATCH = 1_000_000, 64 * 2**20
"""Beyond so many rows, each takes a byte of its Parquet file; a batch of them holds at most so many bytes of a column."""
MAX_LINES = 5
"""Bad lines of one file that are named; the rest are counted."""


class FormatError(Exception):
    """Error that a file is damaged or of another format; the caller names the file."""


class BadLinesError(FormatError):
    """Error that `bad` of a file's `lines` are invalid; the others can be read."""

    def __init__(self, message: str, bad: int, lines: int) -> None:
        super().__init__(message)
        self.bad, self.lines = bad, lines


def check_file(path: Path, form: str | None = None, linked: bool = False) -> int | None:
    """Read a whole file as `form`; return its number of records or None; else FormatError.

    Args:
        form: one of `cards.Format`; None = by its suffix, `any` where that is unknown.
    """
    form = form or BY_SUFFIX.get(path.suffix.lower()) or ("image" if pictures.is_image_name(path.name) else "any")
    try:
        status = path.stat() if linked else path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise FormatError("not an ordinary file; only files and folders are taken")
        with path.open("rb") as handle:
            head = handle.read(512)
        if form == "any":
            return None
        _check_head(head, form)
        records: int | None = _CHECKS[form](path)
        return records
    except (ArchiveError, ColumnarError, JsonStreamError) as error:
        raise FormatError(str(error).removeprefix(f"{path}: ")) from error
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}") from error


def _check_head(head: bytes, form: str) -> None:
    if not head:
        raise FormatError("empty file; fetch it again")
    if head.startswith(b"version https://git-lfs.github.com/spec/"):
        raise FormatError("a Git LFS pointer, not the file itself; run `git lfs pull` in the source and add again")
    if form not in ("text", "any") and head.lstrip().lower().startswith(_HTML):
        raise FormatError(f"a web page, not {form}: the download met a login or error page; fetch it again")


def _json(path: Path) -> int | None:
    try:
        return count(path)
    except JsonStreamError as error:
        message = str(error).removeprefix(f"{path}: ")
        kind = "cut short or not JSON" if "expected a whole JSON" in message else "not JSON"
        raise FormatError(f"{kind}: {message}; fetch it again") from error


def _jsonl(path: Path) -> int:
    bad = _BadLines()
    good = sum(1 for _ in lines(path, lambda error: bad.add(str(error).removeprefix(f"{path}: "))))
    bad.raise_if_any(good + bad.number, "where the last is bad the file may be cut short, fetch it again")
    return good


def _pickle(path: Path) -> int | None:
    from qualm.registry.formats.unpickle import UnpickleError, read_pickle

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
    """Return the number of rows of a Parquet file after reading all; else FormatError.

    Batches are small enough for a value that is stored once and repeated.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    packed = path.stat().st_size
    try:
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
            records, size = int(file.metadata.num_rows), sum(group.total_byte_size for group in groups)
            if records > max(MANY_ROWS, packed) or size > max(FREE, RATIO * packed):
                raise FormatError(
                    f"claims {records:,} rows of {size:,} bytes in a file of {packed:,} bytes; it is refused: if you trust it, write the "
                    "file anew"
                )
            for number, group in enumerate(groups):
                widest = max((group.column(n).total_uncompressed_size for n in range(group.num_columns)), default=0)
                for _ in file.iter_batches(min(65_536, max(1, BATCH // max(widest, 1))), row_groups=[number]):
                    pass
            return records
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"truncated or corrupt Parquet ({error}); fetch it again") from error


def _csv(path: Path) -> int:
    bad = _BadLines()
    try:
        table = rows(path)
        head = next((cells for _, cells in table), [])
        n = 0
        for line, row in table:
            n += 1
            if len(row) != len(head):
                bad.add(f"line {line} has {len(row)} fields where the header has {len(head)}")
    except TextTableError as error:
        raise FormatError(f"not a table of text: {error}; fetch it again") from error
    bad.raise_if_any(n, "is a row cut or unquoted?")
    return n


class _BadLines:
    """Collector of invalid lines: all are counted, the first MAX_LINES kept as text."""

    def __init__(self) -> None:
        self.number, self._first_lines = 0, list[str]()

    def add(self, line: str) -> None:
        self.number += 1
        if self.number <= MAX_LINES:
            self._first_lines.append(line)

    def raise_if_any(self, records: int, hint: str) -> None:
        """Raise BadLinesError, its message ending with `hint`, if a line was added."""
        if self.number:
            more = f"; {self.number - MAX_LINES:,} lines more" if self.number > MAX_LINES else ""
            raise BadLinesError(f"{'; '.join(self._first_lines)}{more}; {hint}", self.number, records)


def _image(path: Path) -> None:
    try:
        pictures.check(path)
    except pictures.HugePictureError as error:
        raise FormatError(f"too large an image: {error}; scale it down") from error
    except pictures.PictureError as error:
        raise FormatError(f"not a whole image ({error}); fetch it again") from error


def _text(path: Path) -> int:
    lines, last, decoder = 0, "", codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as handle:
        try:
            while chunk := handle.read(1 << 20):
                text = decoder.decode(chunk)
                if "\0" in text:
                    line = lines + 1 + text.partition("\0")[0].count("\n")
                    raise FormatError(f"not text: line {line:,} has a NUL byte; fetch it again")
                lines, last = lines + text.count("\n"), text[-1:] or last
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise FormatError(f"not UTF-8 text: {not_utf8(path)}") from error
    return lines + (last != "\n")


_CHECKS: dict[str, Callable[[Path], Any]] = {
    "json": _json,
    "jsonl": _jsonl,
    "pickle": _pickle,
    "safetensors": _safetensors,
    "parquet": _parquet,
    "arrow": lambda path: sum(1 for _ in read_rows(path)),
    "csv": _csv,
    "image": _image,
    "text": _text,
    "zip": check_zip,
}
