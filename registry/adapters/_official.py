"""Readers of official files: records checked by key, images by name, errors with places."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from qualm.registry.adapters import AdapterContext, AdapterError, MissingImageError
from qualm.registry.adapters._fields import columns_containing
from qualm.registry.formats import pictures
from qualm.registry.formats.json_stream import JsonStreamError, values
from qualm.registry.formats.text_tables import TextTableError, rows
from qualm.registry.sample import Image, Sample
from qualm.registry.system.dvc_objects import lies_in


def read_list(path: Path, expected: str) -> list[Any]:
    """Return all records of a JSON or JSON Lines file; AdapterError if missing, bad or empty."""
    return [record for _, record in read_records(path, expected)]


def read_records(path: Path, expected: str, under: str | None = None, context: AdapterContext | None = None) -> Iterator[tuple[str, Any]]:
    """Yield ("FILE: line 3, record 2", record) of a JSON or JSON Lines file; or AdapterError.

    Records are counted from 0. Only one is in memory at a time; a gigabyte takes ten to twenty seconds.

    Args:
        path: a JSON list or JSON Lines, recognised by the first character, not by the file's name.
        under: key of the list of records, if the file is one JSON object; `*` yields the object's members as (key, value).
        context: collects invalid lines and records, and the place of each record; None ends the run at the first invalid line.
    """
    if not path.is_file():
        raise AdapterError(f"{path}: expected {expected}, found none; `qualm data show` says which files belong there")
    number = -1
    try:
        bad = None if context is None else lambda error: context.bad(AdapterError(str(error)))
        for number, (line, record) in enumerate(values(path, under, bad)):
            where = f"{path}: line {line}, record {number}"
            if context is not None:
                context.place[:] = [where]
            yield where, record
    except JsonStreamError as error:
        raise AdapterError(f"{error} (expected {expected})") from error
    if number < 0:
        raise AdapterError(f"{path}: expected {expected}, got an empty {'list' if under is None else f'{under!r}'}")


def read_rows(
    path: Path, expected: str, columns: Collection[str] = (), context: AdapterContext | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield ("FILE: line 3", {column: cell}) of a CSV or TSV file's rows; else AdapterError.

    The suffix selects the format; only one row is in memory at a time.

    Args:
        path: UTF-8, with or without a byte order mark.
        columns: required columns; further ones are allowed.
        context: collects rows with more or fewer fields than the header, and each row's place; None ends the run at such a row.
    """
    if not path.is_file():
        raise AdapterError(f"{path}: expected {expected}, found none; `qualm data show` says which files belong there")
    lines = rows(path)
    try:
        _, head = next(lines, (1, []))
        _header(path, expected, head, columns)
        for line, row in lines:
            where = f"{path}: line {line}"
            if context is not None:
                context.place[:] = [where]
            if len(row) == len(head):
                yield where, dict(zip(head, row, strict=True))
                continue
            fault = AdapterError(f"{where}: expected {len(head)} fields as the header has, got {len(row)}; is the row cut or unquoted?")
            if context is None:
                raise fault
            context.bad(fault)
    except TextTableError as error:
        raise AdapterError(f"{path}: not a table of text: {error} (expected {expected})") from error


def _header(path: Path, expected: str, head: list[str], columns: Collection[str]) -> None:
    if head and head[0].lstrip().lower().startswith(("<!doctype", "<html")):
        raise AdapterError(f"{path}: expected {expected}, got a web page: the download met a login or error page, fetch it again")
    twice = sorted({name for name in head if head.count(name) > 1})
    if not head or twice:
        got = f"columns twice: {', '.join(twice)}" if twice else "an empty file"
        raise AdapterError(f"{path}: expected {expected} with a header, got {got}")
    if missing := [name for name in columns if not columns_containing(head, [name])]:
        raise AdapterError(f"{path}: expected the columns {', '.join(columns)}; missing {', '.join(missing)}; it has: {', '.join(head)}")


def require_record(record: Any, keys: Collection[str], where: str, others: Collection[str] | None = None) -> dict[str, Any]:
    """Return `record` if a dict with `keys` (and no keys beyond `others`); else AdapterError."""
    if not isinstance(record, dict):
        raise AdapterError(f"{where}: expected a record of keys, got {type(record).__name__}")
    missing = [k for k in keys if k not in record]
    if missing:
        raise AdapterError(f"{where}: missing {', '.join(missing)}; it has: {', '.join(map(str, record)) or 'no keys'}")
    unknown = [k for k in record if others is not None and k not in keys and k not in others]
    if unknown:
        raise AdapterError(
            f"{where}: unknown keys {', '.join(map(str, unknown))}; expected {', '.join([*keys, *(others or ())])}. "
            "The release may have changed: the adapter has to learn what they mean before its numbers can be trusted"
        )
    return record


def require_choice(record: dict[str, Any], key: str, allowed: Collection[str], where: str) -> str:
    """Return the value at an existing key if it is one of `allowed`; else AdapterError."""
    if record[key] not in tuple(allowed):
        raise AdapterError(f"{where}: {key}: expected one of {', '.join(allowed)}, got {record[key]!r:.60}")
    return str(record[key])


def require_text(record: dict[str, Any], key: str, where: str) -> str:
    """Return the text at an existing key, unstripped; AdapterError if blank or not text."""
    value = record[key]
    if not isinstance(value, str) or not value.strip():
        raise AdapterError(f"{where}: {key}: expected text, got {value!r:.60}")
    return value


def require_integer(record: dict[str, Any], key: str, where: str) -> int:
    """Return the int at an existing key; AdapterError for bool, float and text."""
    value = record[key]
    if type(value) is not int:
        raise AdapterError(f"{where}: {key}: expected a whole number, got {value!r:.60}")
    return value


def number_repeats(name: str, repeated: Counter[str]) -> str:
    """Count `name` in `repeated`; return it, with `-2`, `-3`... if it was counted before."""
    repeated[name] += 1
    return name if repeated[name] == 1 else f"{name}-{repeated[name]}"


def read_image(source: Path, places: Sequence[str], image_id: str, where: str) -> Image:
    """Read the image at the first path in `places` that is a file; MissingImageError if none."""
    for place in places:
        path = source / place
        try:
            there = lies_in(source, path) and path.is_file()
        except (OSError, ValueError):  # a name that no file can have
            continue
        if there:
            return Image(image_id, path.read_bytes(), place)
    raise MissingImageError(f"{where}: expected its image at {' or '.join(places):.500} within {source}, found none", places)


def select(context: AdapterContext, sample: Sample, places: Sequence[str], where: str, of: str = "") -> Iterator[Image | Sample]:
    """Yield [image,] sample as `AdapterContext.selected`; the image is at the first of `places` that is a file."""
    return context.selected(sample, read_image, context.source, places, sample.image_id, where, of=of)


_JPEG_END, _PNG_END = b"\xff\xd9", b"IEND\xaeB`\x82"


def check_image(data: bytes, where: str) -> bytes:
    """Return `data` if it is an image and, if JPEG or PNG, not cut short; else AdapterError."""
    if data[:64].lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise AdapterError(f"{where}: expected an image, got a web page; fetch it again")
    try:
        kind = pictures.facts(data).format
    except pictures.HugePictureError as error:
        raise AdapterError(f"{where}: an image too large to be shown to a model: {error}") from error
    except pictures.PictureError as error:
        raise AdapterError(f"{where}: expected an image, got {len(data):,} bytes that cannot be read as one: {data[:16]!r}") from error
    if (kind == "PNG" and _PNG_END not in data) or (kind == "JPEG" and not _is_whole_jpeg(data)):
        raise AdapterError(f"{where}: a {kind} that is cut short; fetch it again")
    return data


def _is_whole_jpeg(data: bytes) -> bool:
    """Return whether a JPEG's end mark follows its pixels; a phone's short video may follow."""
    if _JPEG_END in data.rstrip(b"\0")[-4096:]:
        return True
    if _JPEG_END not in data[data.rfind(b"\xff\xda") :]:
        return False
    try:
        pictures.decoded(data)
    except pictures.PictureError:
        return False
    return True


def add_instruction(question: str, instruction: str) -> str:
    """Return "QUESTION INSTRUCTION", or the question alone if the instruction is empty."""
    return f"{question} {instruction}" if instruction else question


def yes_or_no(record: dict[str, Any], key: str, where: str) -> str:
    """Return "yes" or "no", the record's value at `key` in lower case; else AdapterError."""
    value = record[key]
    answer = value.strip().lower() if isinstance(value, str) else ""
    if answer not in ("yes", "no"):
        raise AdapterError(f"{where}: {key}: expected yes or no, got {value!r:.60}")
    return answer
