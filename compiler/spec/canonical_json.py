"""Canonical JSON: one text for one value, so that equal parameters are equal bytes."""

import json
from typing import Any


def canonical(value: Any) -> str:
    """One text for one value: sorted keys, no NaN, 15 and 15.0 distinct."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
