"""Signals that the formats of other tools have no field for: written under one extra key, which those tools ignore.

An export keeps token log-probabilities, entropies, raw option logits and the like under `qualm`, so that it reads back
to the same generations, bit for bit. A recording of somebody else has no such key, and nothing here is missed then.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from qualm.registry.sample import GENERATIONS

KEY = "qualm"
NO_TEXT = "no_text"

_COLUMNS = [f for f in GENERATIONS if f.name not in ("sample_id", "variant", "draw")]
LISTS = tuple(f.name for f in _COLUMNS if pa.types.is_list(f.type))
NUMBERS = tuple(f.name for f in _COLUMNS if pa.types.is_floating(f.type))
TEXTS = tuple(f.name for f in _COLUMNS if pa.types.is_string(f.type))
NESTED = tuple(f.name for f in _COLUMNS if pa.types.is_list(f.type) and pa.types.is_list(f.type.value_type))
"""Columns that are a list per position."""
SPELLED = tuple(f.name for f in _COLUMNS if f.name in NESTED and pa.types.is_string(f.type.value_type.value_type))
"""Columns of NESTED whose lists hold texts."""
COLUMNS = (*TEXTS, *LISTS, *NUMBERS)
"""Every column of GENERATIONS but its key."""


class SignalError(Exception):
    """Error of malformed signals under Qualm's key in another tool's log."""


def pack(row: Mapping[str, Any], but: Collection[str] = ()) -> dict[str, Any]:
    """Return {column: JSON-ready value} of an answer's non-null signals, except `but`.

    Infinities and NaN, which JSON lacks, become text. If `text` is in `but` and null, `no_text` marks that the log's text is not the
    model's.
    """
    columns: dict[str, Any] = {NO_TEXT: True} if "text" in but and row.get("text") is None else {}
    for name in COLUMNS:
        value = row.get(name)
        if value is None or name in but:
            continue
        columns[name] = [_out(v) for v in value] if name in LISTS else _out(value) if name in NUMBERS else value
    return columns


def unpack(value: Any) -> dict[str, Any]:
    """Return {column: value} from what `pack` wrote; SignalError if malformed."""
    if not isinstance(value, Mapping):
        raise SignalError(f"expected an object under '{KEY}', got {type(value).__name__}")
    columns: dict[str, Any] = {}
    for name, cell in value.items():
        if name == NO_TEXT and cell in (True, None):
            columns |= {"text": None} if cell else {}
        elif cell is None:  # readers that make a table of lines fill in what a line lacks
            continue
        elif name in LISTS and isinstance(cell, list):
            columns[name] = [_in(v, name) for v in cell]
        elif name in NUMBERS:
            columns[name] = _in(cell, name)
        elif name in TEXTS and isinstance(cell, str):
            columns[name] = cell
        else:
            raise SignalError(f"unexpected '{name}' under '{KEY}', of type {type(cell).__name__}")
    return columns


def _out(value: Any) -> Any:
    if isinstance(value, list):
        return [_out(item) for item in value]
    if isinstance(value, str):
        return value
    return float(value) if math.isfinite(value) else str(float(value))


def _in(value: Any, name: str) -> Any:
    if name in SPELLED:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
        raise SignalError(f"expected lists of texts in '{name}' under '{KEY}', got {value!r:.40}")
    if name in NESTED and isinstance(value, list):
        return [_number(item, name) for item in value]
    return _number(value, name)


def _number(value: Any, name: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e308:
        return float(value)
    if value in ("inf", "-inf", "nan"):
        return float(value)
    raise SignalError(f"expected numbers in '{name}' under '{KEY}', got {value!r}")
