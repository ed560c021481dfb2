"""Tables in the terminal; scores and tests share one layout, metrics down and models across."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from rich.text import Text

from qualm.compiler.results.scores import Row
from qualm.registry.system.grids import Grid


def format_measure(value: float | None) -> str:
    """Return a measure as text with three decimals and an ASCII minus.

    >>> format_measure(0.12345), format_measure(-0.5), format_measure(None)
    ('0.123', '-0.500', 'undefined')
    """
    from qualm.runners.reporting.text import number

    return number(value).replace("−", "-")


def metrics_down(
    title: Text,
    cells: Mapping[tuple[str, str], Row],
    models: Sequence[str],
    cell_text: Callable[[Row | None], Text],
    unscored: bool = False,
) -> Grid:
    """Return a grid: a row per metric, a column per model, then n.

    Args:
        title: of the table.
        cells: by metric and model, metrics in the order of their rows.
        models: in the order of their columns.
        cell_text: a cell, or the lack of one, in words.
        unscored: say how many questions could not be scored (`n_unscored`).
    """
    grid = Grid([("metric", "left"), *((model, "right") for model in models), ("n", "right")], title)
    for metric in dict.fromkeys(metric for metric, _ in cells):
        row = [cells.get((metric, m)) for m in models]
        scored = [cell for cell in row if cell]
        counts = sorted({cell["n"] for cell in scored})
        n = "–".join(f"{c:,}" for c in dict.fromkeys((counts[0], counts[-1]))) if counts else ""
        grid.add(metric, *map(cell_text, row), Text(n + (_unscored(scored) if unscored else ""), style="dim"))
    return grid


def _unscored(cells: Sequence[Row]) -> str:
    """Return " (+N unscored, scored SHARES)", N the most of any cell; "" if all are scored."""
    from qualm.runners.scoring.scored_share import format_share, shares_differ

    left = max((cell["n_unscored"] for cell in cells), default=0)
    if not left:
        return ""
    shares = sorted(share for cell in cells if (share := cell.get("scored_share")) is not None)
    ends = "–".join(dict.fromkeys(map(format_share, (shares[0], shares[-1])))) if shares else ""
    scored = f", scored {ends}{': not comparable' if shares_differ(shares) else ''}" if ends else ""
    return f" (+{left:,} unscored{scored})"


def value_text(row: Row | None) -> Text:
    """Return a row's value and interval as styled text; "undefined", or a dash."""
    from qualm.runners.scoring.unscored import NO_CONFIDENCE

    if row is None:
        return Text("–", style="dim")
    if row["value"] is None or math.isnan(row["value"]):
        dash = (row.get("why") or "").startswith(NO_CONFIDENCE)
        return Text("–" if dash else "undefined", style="dim italic")
    text = Text(format_measure(row["value"]))
    if row["low"] is not None and row["high"] is not None:
        between = " to " if row["low"] < 0 else "–"  # beside a minus a dash is misread
        text.append(f" {format_measure(row['low'])}{between}{format_measure(row['high'])}", style="dim")
    return text
