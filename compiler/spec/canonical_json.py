"""Canonical JSON: equal values have equal text."""

import json
from typing import Any


def canonical(value: Any) -> str:
    """Return a value as JSON text with sorted keys, ValueError for NaN; 15 and 15.0 differ."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
