"""How tables look in the terminal, and the one shape that scores and tests share: metrics down, models across."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from compiler.scores import Row

BESIDE = 34
"""Columns of the terminal that the metrics' names and the counts take."""


def plain_table(title: Text) -> Table:
    """A table without lines, its title on the left."""
    if title.cell_len <= Console().width:
        title.no_wrap, title.overflow = True, "ignore"  # it may be wider than the table
    return Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))


def in_parts(models: Sequence[str], cell: int, console: Console) -> Iterator[Sequence[str]]:
    """As many models at a time as fit beside each other, each in `cell` columns of the terminal."""
    fits = max(1, (console.width - BESIDE) // cell)
    for start in range(0, len(models), fits):
        yield models[start : start + fits]


def metrics_down(
    title: Text, cells: Mapping[tuple[str, str], Row], models: Sequence[str], shown: Callable[[Row | None], Text], unscored: bool = False
) -> Table:
    """A row per metric, a column per model, and over how many questions.

    Args:
        title: of the table.
        cells: by metric and model, metrics in the order of their rows.
        models: in the order of their columns.
        shown: a cell, or the lack of one, in words.
        unscored: say how many questions could not be scored (`n_unscored`).
    """
    table = plain_table(title)
    table.add_column("metric", overflow="fold")
    for model in models:
        table.add_column(Text(model), justify="right", overflow="fold")
    table.add_column("n", justify="right", style="dim")
    for metric in dict.fromkeys(metric for metric, _ in cells):
        found = [cells.get((metric, m)) for m in models]
        there = [cell for cell in found if cell]
        counts = sorted({cell["n"] for cell in there})
        n = "–".join(f"{c:,}" for c in dict.fromkeys((counts[0], counts[-1]))) if counts else ""
        left = max((cell["n_unscored"] for cell in there), default=0) if unscored else 0
        table.add_row(Text(metric), *map(shown, found), n + (f" (+{left:,} unscored)" if left else ""))
    return table
