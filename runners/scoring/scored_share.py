"""Scored share of the answers: from which value readers are warned, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

MAX_UNREAD = 0.01
"""Share of unread answers beyond which a value is shown with its bounds."""
MAX_DIFFERENCE = 0.02
"""Difference of two scored shares beyond which two values are not compared without a word."""


def shares_differ(shares: Iterable[float | None]) -> bool:
    """Return whether known scored shares differ by so much that a comparison needs a warning.

    >>> shares_differ([0.98, 1.0, None]), shares_differ([0.97, 1.0])
    (False, True)
    """
    known = [share for share in shares if share is not None and not math.isnan(share)]
    return len(known) > 1 and max(known) - min(known) > MAX_DIFFERENCE + 1e-9


def share_in_words(share: float | None) -> str:
    """Return a scored share as a percentage that never rounds up to 100.

    >>> share_in_words(0.9996), share_in_words(1.0), share_in_words(None)
    ('99.9%', '100%', 'unknown')
    """
    if share is None or math.isnan(share):
        return "unknown"
    return "100%" if share == 1 else f"{math.floor(1000 * share) / 10:g}%"


def unequal_shares(share_of: Mapping[str, float | None]) -> str:
    """Return a clause with the scored shares of rows that are compared; empty where they hardly differ.

    >>> unequal_shares({"a": 1.0, "b": 0.61}), unequal_shares({"a": 1.0, "b": 1.0})
    ('scored shares differ: a 100%, b 61%', '')
    """
    if not shares_differ(share_of.values()):
        return ""
    return f"scored shares differ: {', '.join(f'{name} {share_in_words(share)}' for name, share in share_of.items())}"


def shows_bounds(row: Mapping[str, Any]) -> bool:
    """Return whether a score is shown with its bounds."""
    share, ends = row.get("scored_share"), (row.get("value_if_wrong"), row.get("value_if_right"))
    return share is not None and 1 - share > MAX_UNREAD + 1e-9 and None not in ends


def bounds_in_words(row: Mapping[str, Any], digits: int = 3) -> str:
    """Return what a score would be if all unread answers were wrong, or all right; empty where that is not shown.

    >>> bounds_in_words({"scored_share": 0.75, "value_if_wrong": 0.375, "value_if_right": 0.625})
    '0.375 to 0.625 with the unread 25%'
    """
    if not shows_bounds(row):
        return ""
    low, high = (f"{row[end]:.{digits}f}" for end in ("value_if_wrong", "value_if_right"))
    return f"{low} to {high} with the unread {100 * (1 - row['scored_share']):.0f}%"
