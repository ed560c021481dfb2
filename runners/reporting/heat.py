"""Grids of numbers in colour: a table, so that it can be read aloud, copied and scrolled, and each cell says more when pointed at."""

import itertools
from dataclasses import dataclass, field, replace

from qualm.runners.scoring.families import ALPHA

SURE = ALPHA
STRONGEST = 52
"""Per cent of colour in the most extreme cell: text stays readable on it in light and in dark."""


@dataclass
class HeatCell:
    """One number of a heat map, with the strength and tone of its background colour."""

    value: str
    small: str = ""
    heat: int = 0
    tone: str = "up"
    """`up` or `down`."""
    title: str = ""
    strong: bool = False
    mark: str = ""
    """Stars: significance levels of a corrected test."""
    undefined: bool = False


@dataclass
class HeatMap:
    """A heat map as a table; `columns` are (heading, small text below it)."""

    caption: str
    first: str
    columns: list[tuple[str, str]]
    rows: list[tuple[str, list[HeatCell]]]
    groups: list[tuple[str, int]] = field(default_factory=list)


WIDEST = 10
"""Columns of one table: as many as a page of 1,280 pixels shows without scrolling."""


def split_heat_map(heat: HeatMap, max_columns: int = WIDEST) -> list[HeatMap]:
    """Split a heat map of over `max_columns` columns into one per group, or several if wide.

    A narrower heat map stays whole. Wide groups, or columns without groups, are split into parts of nearly equal width.

    >>> wide = HeatMap("", "", [(str(i), "") for i in range(5)], [("row", [HeatCell(str(i)) for i in range(5)])], [("a", 1), ("b", 4)])
    >>> [[cell.value for cell in piece.rows[0][1]] for piece in split_heat_map(wide, 3)]
    [['0'], ['1', '2'], ['3', '4']]
    """
    if len(heat.columns) <= max_columns:
        return [heat]
    spans: list[tuple[str, int, int]] = []
    start = 0
    for name, width in heat.groups or [("", len(heat.columns))]:
        parts = -(-width // max_columns)
        ends = [start + width * k // parts for k in range(parts + 1)]
        spans += [(name, low, high) for low, high in itertools.pairwise(ends)]
        start += width
    return [
        replace(
            heat,
            columns=heat.columns[low:high],
            rows=[(name, cells[low:high]) for name, cells in heat.rows],
            groups=[(group, high - low)] if heat.groups else [],
        )
        for group, low, high in spans
    ]


def shade(value: float, max_distance: float, middle: float = 0.0) -> tuple[int, str]:
    """Return (per cent, 0 to STRONGEST, "up" or "down") for the distance from the middle.

    >>> shade(-0.5, 1.0), shade(0.25, 0.5)
    ((26, 'down'), (26, 'up'))
    """
    part = min(1.0, abs(value - middle) / max_distance) if max_distance > 0 else 0.0
    return round(STRONGEST * part), "down" if value < middle else "up"


def count_runs(modalities: list[str]) -> list[tuple[str, int]]:
    """Return runs of equal modalities as (modality, number of columns).

    >>> count_runs(["image", "image", "text"])
    [('image', 2), ('text', 1)]
    """
    return [(name, len(list(run))) for name, run in itertools.groupby(modalities)]
