"""Grid of estimators against perturbations as shaded numbers, for print."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from qualm.runners.runtime.colours import GRID, INK
from qualm.runners.runtime.printed import CHARACTER, Drawing, box, label, shorten_text, shorten_texts, vertical_label
from qualm.runners.scoring.families import stars

CELL, TALL = 31.0, 17.0
"""Width and height of a cell with a number and its stars."""
STRONGEST = 0.6
"""Share of colour in the most extreme cell, on which black text stays readable."""
UP, DOWN = (0, 114, 178), (213, 94, 0)
MAX_HEAD_LENGTH = 118.0
"""Greatest length of a column's head."""


def grid(width: float, rows: Sequence[Mapping[str, Any]], modality_of_variant: Mapping[str, str], full_colour_value: float) -> Drawing:
    """Return a Drawing of one model's grid; columns beyond the page's width continue below.

    Args:
        rows: `estimator`, `variant`, `value`, `p_adjusted`, `collapsed`.
        modality_of_variant: of each variant, in the order of columns.
        full_colour_value: value with the strongest colour.
    """
    cells = {(row["estimator"], row["variant"]): row for row in rows}
    names = list(dict.fromkeys(row["estimator"] for row in rows))
    there = {row["variant"] for row in rows}
    variants = [v for v in modality_of_variant if v in there] + [
        v for v in dict.fromkeys(row["variant"] for row in rows) if v not in modality_of_variant
    ]
    left = min(width * 0.42, max(len(name) for name in names) * CHARACTER + 10)
    across = max(1, int((width - left - 9) // CELL))
    blocks = -(-len(variants) // across)
    size = -(-len(variants) // blocks)
    drawing = Drawing(width)
    for begin in range(0, len(variants), size):
        _block(drawing, cells, names, variants[begin : begin + size], modality_of_variant, full_colour_value, left)
    return drawing


def _block(
    drawing: Drawing,
    cells: Mapping[tuple[str, str], Mapping[str, Any]],
    names: Sequence[str],
    variants: Sequence[str],
    modality: Mapping[str, str],
    most: float,
    left: float,
) -> None:
    head = min(MAX_HEAD_LENGTH, max(len(v) for v in variants) * CHARACTER + 6)
    top = drawing.height + head + 20
    for kind, of in itertools.groupby(enumerate(variants), key=lambda item: modality.get(item[1], "")):
        places = [place for place, _ in of]
        x1, x2 = left + places[0] * CELL + 2, left + (places[-1] + 1) * CELL - 2
        drawing.shapes.append(label((x1 + x2) / 2, drawing.height + 10, shorten_text(kind, x2 - x1 + 4), "middle", weight="bold"))
        drawing.shapes.append(box(x1, drawing.height + 14, x2 - x1, 0.8, INK))
    for place, text in enumerate(shorten_texts(variants, head - 4)):
        drawing.shapes.append(vertical_label(left + (place + 0.5) * CELL + 3.4, top - 4, text, "start", 10))
    labels = shorten_texts(names, left - 8)
    for line, name in enumerate(names):
        y = top + line * TALL
        drawing.shapes.append(label(left - 6, y + TALL / 2 + 3.4, labels[line], "end"))
        for place, variant in enumerate(variants):
            drawing.shapes += _cell(left + place * CELL, y, cells.get((name, variant)), most)
    drawing.height = top + len(names) * TALL + 12


def _cell(x: float, y: float, row: Mapping[str, Any] | None, most: float) -> list[str]:
    middle = (x + CELL / 2, y + TALL / 2 + 3.2)
    if row is None:
        return [box(x, y, CELL, TALL, "var(--paper)", GRID), label(*middle, "–", "middle")]
    if row["value"] is None:
        hatch = "".join(f"M{x + d:.1f},{y + TALL:.1f}l{TALL:.1f},{-TALL:.1f}" for d in (0, 7, 14))
        line = f'<path d="{hatch}" stroke="{GRID}" stroke-width="1.2" fill="none" />'
        return [box(x, y, CELL, TALL, "var(--paper)", GRID), line]
    share = 0.0 if row.get("collapsed") else STRONGEST * min(1.0, abs(row["value"]) / most)
    text = ("−" if row["value"] < 0 else "+") + f"{abs(row['value']):.2f}".removeprefix("0")
    return [
        box(x, y, CELL, TALL, _mix(UP if row["value"] > 0 else DOWN, share), "var(--paper)"),
        label(*middle, text + stars(row["p_adjusted"]), "middle", 9),
    ]


def _mix(colour: tuple[int, int, int], share: float) -> str:
    return "#" + "".join(f"{round(255 + (part - 255) * share):02x}" for part in colour)
