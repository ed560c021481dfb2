"""Lines of JSON, as lm-evaluation-harness and lmms-eval log them."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from qualm.registry.formats.faults import Fault
from qualm.registry.formats.json_stream import reject_duplicate_keys

MAX_LINE = 64 * 2**20
"""Longer lines are refused; a line with a hundred long answers has less than a megabyte."""

HEAD = 20
"""Lines by which a file's format is told."""


def rows(path: Path, separator: bytes = b"") -> Iterator[tuple[str, dict[str, Any]] | Fault]:
    """Yield ("FILE:LINE", object) of each non-empty line, or a Fault if it is no object.

    A trailing `separator` of a line is dropped.
    """
    number = 0
    with path.open("rb") as handle:
        while line := handle.readline(MAX_LINE + 1):
            number += 1
            where = f"{path.name}:{number}"
            if len(line) > MAX_LINE:
                while not line.endswith(b"\n") and (line := handle.readline(MAX_LINE)):
                    pass
                yield Fault(where, "line too long", f"more than {MAX_LINE:,} bytes")
                continue
            if not line.strip():
                continue
            try:
                value = json.loads(line.strip().removesuffix(separator), object_pairs_hook=reject_duplicate_keys)
            except (ValueError, RecursionError) as error:
                yield Fault(where, "not JSON", str(error))
                continue
            if isinstance(value, dict):
                yield where, value
            else:
                yield Fault(where, "not an object", type(value).__name__)


def keys(path: Path, separator: bytes = b"") -> set[str]:
    """Return all keys in the first 20 lines' objects; empty if unreadable."""
    names: set[str] = set()
    try:
        for item in islice(rows(path, separator), HEAD):
            names |= set(item[1]) if isinstance(item, tuple) else set()
    except OSError:
        return set()
    return names
