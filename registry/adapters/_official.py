"""What readers of official files share: records checked by key, pictures found by name, and messages that say where."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from registry.adapters import AdapterError
from registry.sample import Image


def read_list(path: Path, what: str) -> list[Any]:
    """A JSON file that is one list of records.

    Raises:
        AdapterError: it is not there, not JSON, no list, or empty.
    """
    if not path.is_file():
        raise AdapterError(f"{path}: expected {what}, found none")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise AdapterError(f"{path}: expected {what} as JSON: {error}") from error
    if not isinstance(found, list) or not found:
        raise AdapterError(
            f"{path}: expected a list of records, got {type(found).__name__ if not isinstance(found, list) else 'an empty one'}"
        )
    return found


def need(record: Any, keys: Collection[str], where: str, others: Collection[str] | None = None) -> dict[str, Any]:
    """A record that has these keys; with `others` given, no key beside these and those.

    Raises:
        AdapterError: naming what is missing or unknown and what there is.
    """
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


def text_of(record: dict[str, Any], key: str, where: str) -> str:
    """A value that is text and not empty.

    Raises:
        AdapterError: it is something else.
    """
    value = record[key]
    if not isinstance(value, str) or not value.strip():
        raise AdapterError(f"{where}: {key}: expected text, got {value!r:.60}")
    return value


def read_image(source: Path, places: Sequence[str], image_id: str, where: str) -> Image:
    """The picture at the first of these paths within the source that is a file.

    Raises:
        AdapterError: there is none, or its path leads out of the source.
    """
    inside = source.resolve()
    for place in places:
        path = (source / place).resolve()
        if path.is_relative_to(inside) and path.is_file():
            return Image(image_id, path.read_bytes(), place)
    raise AdapterError(f"{where}: expected its picture at {' or '.join(places)} within {source}, found none")
