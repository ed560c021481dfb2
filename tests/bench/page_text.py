"""Numbers, tables and lists of the pages of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def number(value: float, digits: int = 3) -> str:
    """Format a number without its leading zero.

    >>> number(-0.1829), number(0.5), number(1.0), number(0.675, 2), number(-0.0001)
    ('−.183', '.500', '1.000', '.68', '.000')
    """
    text = f"{abs(value):.{digits}f}"
    return ("−" if value < 0 and float(text) else "") + text.removeprefix("0")


def interval(row: dict[str, Any], digits: int = 3) -> str:
    """Format value and 95% CI of a row.

    >>> interval({"value": 0.5, "low": 0.45, "high": 0.55}, 2), interval({"value": 0.1, "low": -0.1, "high": 0.3}, 1)
    ('.50 (.45–.55)', '.1 (−.1 to .3)')
    """
    low, high = number(row["low"], digits), number(row["high"], digits)
    return f"{number(row['value'], digits)} ({low}{'–' if row['low'] >= 0 else ' to '}{high})"


def p_value(p: float) -> str:
    """Format a p-value: `p = .012`, or `p < .001`."""
    return "p < .001" if p < 0.001 else f"p = {number(p)}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    head, *body = (f"| {' | '.join(cells)} |" for cells in (heads, *rows))
    return "\n".join([head, f"|{'---|' * len(heads)}", *body])


def bullets(sentences: Sequence[str]) -> str:
    """Return a Markdown list."""
    return "\n".join(f"- {sentence}" for sentence in sentences)
