"""Columns, and fields within them by dotted names: `answers.text`, `doc.question`.

A column whose own name has dots comes before a field of that path.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from qualm.registry.adapters import AdapterError


def need_columns(where: str, existing_columns: Collection[str], columns: Collection[str]) -> None:
    """Raise AdapterError if one of `columns`, names or dotted fields, does not exist."""
    if missing := [c for c in columns if _column_of(existing_columns, c) is None]:
        existing = ", ".join(map(str, existing_columns)) or "none"
        raise AdapterError(f"{where}: no column {', '.join(map(repr, missing))}; there are: {existing}; correct the card's args")


def columns_containing(existing_columns: Collection[str], names: Collection[str]) -> list[str]:
    """Return the existing columns that hold these dotted fields, each once; skip unknown ones."""
    return list(dict.fromkeys(column for name in names if (column := _column_of(existing_columns, name)) is not None))


def value_at(row: Mapping[str, Any], name: str, where: str) -> Any:
    """Return the value at a column or dotted field, a list within lists; None without column.

    Empty items of a list are left out. A column may hold its fields as JSON text. None if the column is missing or empty.

    Raises:
        AdapterError: a part of the name is no record, or has no such field.
    """
    if name in row:
        return row[name]
    column = _column_of(row, name)
    return None if column is None else _field(row[column], name[len(column) + 1 :], column, where)


def field_names(row: Mapping[str, Any], depth: int = 3) -> Iterator[str]:
    """Yield dotted names of the leaves of a nested row, to `depth` levels, in row order."""
    for name, value in row.items():
        fields = _record_of(value)
        if fields is None or set(fields) <= {"bytes", "path"} or depth == 1 or not fields:
            yield name
        else:
            yield from (f"{name}.{field}" for field in field_names(fields, depth - 1))


def _record_of(value: Any) -> Mapping[str, Any] | None:
    """Return the record in a value: a dict, a list's first dict, or these as JSON; else None."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    first = next((item for item in value if item is not None), None) if isinstance(value, list) else value
    return first if isinstance(first, dict) and all(isinstance(key, str) for key in first) else None


def _column_of(existing_columns: Collection[str], name: str) -> str | None:
    """Return the longest existing column that is a dotted name or its beginning; else None."""
    while name not in existing_columns:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None
    return name


def _field(value: Any, name: str, path: str, where: str) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise AdapterError(f"{where}: {path}: expected a record with '{name}', or one as JSON, got {value!r:.60}: {error}") from error
    if value is None or value == "":
        return None
    if isinstance(value, list | tuple):
        found = [_field(item, name, path, where) for item in value]
        flat = [item for part in found for item in (part if isinstance(part, list) else [part])]
        return [item for item in flat if item is not None and item != ""]
    if not isinstance(value, Mapping):
        raise AdapterError(f"{where}: {path}: expected a record with '{name}', got {value!r:.60}")
    column = _column_of(value, name)
    if column is None:
        raise AdapterError(f"{where}: {path}: no field '{name}'; there are: {', '.join(map(str, value))}")
    return value[column] if column == name else _field(value[column], name[len(column) + 1 :], f"{path}.{column}", where)
