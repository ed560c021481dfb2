"""Scored share of the answers: from which value readers are warned, and the words for it."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

MAX_UNREAD = 0.01
"""Share of unread answers beyond which a value is shown with its bounds."""
MAX_DIFFERENCE = 0.02
"""Difference of two scored shares beyond which two values are not compared without a word."""


def shares_differ(shares: Iterable[float | None]) -> bool:
    """Return whether scored shares, None and NaN ignored, differ by more than MAX_DIFFERENCE.

    >>> shares_differ([0.98, 1.0, None]), shares_differ([0.97, 1.0])
    (False, True)
    """
    known = [share for share in shares if share is not None and not math.isnan(share)]
    return len(known) > 1 and max(known) - min(known) > MAX_DIFFERENCE + 1e-9


def format_share(share: float | None) -> str:
    """Return a scored share as a percentage, rounded down; "unknown" if None or NaN.

    >>> format_share(0.9996), format_share(1.0), format_share(None)
    ('99.9%', '100%', 'unknown')
    """
    if share is None or math.isnan(share):
        return "unknown"
    return "100%" if share == 1 else f"{math.floor(1000 * share) / 10:g}%"


def describe_unequal_shares(share_of: Mapping[str, float | None]) -> str:
    """Return a clause listing shares by name, None as "unknown"; "" if they hardly differ.

    >>> describe_unequal_shares({"a": 1.0, "b": 0.61}), describe_unequal_shares({"a": 1.0, "b": 1.0})
    ('scored shares differ: a 100%, b 61%', '')
    """
    if not shares_differ(share_of.values()):
        return ""
    return f"scored shares differ: {', '.join(f'{name} {format_share(share)}' for name, share in share_of.items())}"


def shows_bounds(row: Mapping[str, Any]) -> bool:
    """Return whether a row has bounds and over MAX_UNREAD of its answers are unread."""
    share, ends = row.get("scored_share"), (row.get("value_if_wrong"), row.get("value_if_right"))
    return share is not None and 1 - share > MAX_UNREAD + 1e-9 and None not in ends


def describe_bounds(row: Mapping[str, Any], digits: int = 3) -> str:
    """Return `0.375 to 0.625 with the unread 25%`, a score's bounds; "" if few are unread.

    >>> describe_bounds({"scored_share": 0.75, "value_if_wrong": 0.375, "value_if_right": 0.625})
    '0.375 to 0.625 with the unread 25%'
    """
    if not shows_bounds(row):
        return ""
    low, high = (f"{row[end]:.{digits}f}" for end in ("value_if_wrong", "value_if_right"))
    return f"{low} to {high} with the unread {100 * (1 - row['scored_share']):.0f}%"
