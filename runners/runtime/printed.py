"""Figures for print: small multiples at a journal's column width, in a palette for colour-blind readers.

A drawing is a self-contained SVG document of the requested width. Lengths are those of `qualm.runners.runtime.plot`; one of them is
`POINT` points on paper, so that labels are set in 7 points.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from qualm.runners.runtime.colours import GRID, INK
from qualm.runners.runtime.plot import LABEL, TITLE, Plot, group
from qualm.runners.runtime.short_names import shorten_names

POINT = 0.7
MILLIMETRES = {"column": 85.0, "page": 175.0}
NARROWEST, WIDEST = 60.0, 400.0
FONTS = "Helvetica, Arial, 'Liberation Sans', sans-serif"
PALETTE = {
    **{"ink": "#000000", "muted": "#000000", "grid": "#d9d9d9", "paper": "#ffffff", "bar": "#c3c7cc"},
    **{"right": "#009e73", "wrong": "#d55e00", "accent": "#0072b2"},
    **{"c0": "#0072b2", "c1": "#d55e00", "c2": "#009e73", "c3": "#cc79a7", "c4": "#e69f00", "c5": "#56b4e9", "c6": "#000000"},
    "c7": "#7f7f7f",
}
"""Colours of Okabe and Ito (jfly.uni-koeln.de/color), without yellow, which is too light on paper."""
BAR = "var(--bar)"
CHARACTER = 5.6
"""Generous mean width of a letter at LABEL, so that texts fit."""
GAP = 16
_HEAD = 17
_FOOT = LABEL + 8
_VARIABLE = re.compile(r"var\(--(\w+)\)")


def plot_width(width: str) -> float:
    """Return a figure width (`column`, `page` or millimetres) in plot units of POINT points.

    >>> round(plot_width("column") * POINT / 72 * 25.4, 3), round(plot_width("120") * POINT / 72 * 25.4, 3)
    (85.0, 120.0)

    Raises:
        ValueError: it is neither `column`, `page` nor a valid number of millimetres.
    """
    try:
        millimetres = MILLIMETRES.get(width) or float(width.removesuffix("mm"))
    except ValueError:
        millimetres = 0.0
    if not NARROWEST <= millimetres <= WIDEST:
        raise ValueError(f"width '{width}': expected column (85 mm), page (175 mm) or millimetres from {NARROWEST:g} to {WIDEST:g}")
    return millimetres / 25.4 * 72 / POINT


def shorten_text(text: str, width: float, size: float = LABEL) -> str:
    """Shorten a text in its middle to a width in plot units at font size `size`.

    >>> shorten_text("entropy@mode=strict", 70)
    'entropy@…ict'
    """
    most = _characters(width, size)
    end = (most - 1) // 3
    return text if len(text) <= most else f"{text[: most - 1 - end]}…{text[-end:]}"


def shorten_texts(texts: Sequence[str], width: float, size: float = LABEL) -> list[str]:
    """Shorten texts to a width in plot units at font size `size`, so that they stay different.

    >>> shorten_texts(["entropy@level=0.5,nli=a", "entropy@level=0.9,nli=a", "accuracy"], 70)
    ['en…0.5,nli=a', 'en…0.9,nli=a', 'accuracy']
    """
    return shorten_names(texts, _characters(width, size), lambda text: shorten_text(text, width, size))


def _characters(room: float, size: float) -> int:
    return max(4, int(room / (CHARACTER * size / LABEL)))


@dataclass
class PlotPanel:
    title: str
    plots: list[Plot]
    """Plots below each other, without axes."""


@dataclass
class Axes:
    """Marks, as (value, label), and titles of the axes that all panels of a figure share."""

    x: Sequence[tuple[float, str]]
    y: Sequence[Sequence[tuple[float, str]]]
    """Marks of each plot of a panel."""
    x_title: str = ""
    y_titles: Sequence[str] = ()


@dataclass
class Drawing:
    width: float
    height: float = 3.0
    shapes: list[str] = field(default_factory=list)

    def legend(self, entries: Sequence[tuple[str, str]]) -> None:
        """Append a wrapped legend of ("KIND COLOUR", text); KIND: box, line, dashed or dotted."""
        x, y = 0.0, self.height + LABEL
        for swatch, text in entries:
            wide = 20 + len(text) * CHARACTER + 14
            if x and x + wide - 14 > self.width:
                x, y = 0.0, y + LABEL + 5
            kind, _, colour = swatch.partition(" ")
            self.shapes += [_swatch(kind, colour, x, y - LABEL * 0.34), label(x + 20, y, text)]
            x += wide
        self.height = y + 8 if entries else self.height

    def panels(self, panels: Sequence[PlotPanel], axes: Axes, columns: int, left: float) -> None:
        """Draw panels in rows of `columns`, with shared axes; `left` is the room for y labels.

        Plots at the same place must be of equal size (`panel_width`).
        """
        if not panels:
            return
        wide = panel_width(self.width, columns, left)
        heights = [plot.height for plot in panels[0].plots]
        tall = _HEAD + sum(heights) + GAP / 2 * (len(heights) - 1)
        titles = shorten_texts([panel.title for panel in panels], wide, TITLE)
        for place, panel in enumerate(panels):
            row, column = divmod(place, columns)
            x, y = left + column * (wide + GAP), self.height + row * (tall + GAP)
            self.shapes.append(label(x, y + _HEAD - 6, titles[place], size=TITLE, weight="bold"))
            top = y + _HEAD
            for index, plot in enumerate(panel.plots):
                last = index == len(panel.plots) - 1
                lowest = last and place + columns >= len(panels)
                plot.y_axis([(v, text if column == 0 else "") for v, text in axes.y[index]], grid=index == 0)
                plot.x_axis([(v, text if lowest else "") for v, text in axes.x])
                self.shapes.append(group(x, top, plot.below + plot.shapes))
                if column == 0 and index < len(axes.y_titles):
                    self.shapes.append(vertical_label(LABEL, top + plot.height / 2, axes.y_titles[index]))
                top += plot.height + GAP / 2
        rows, across = -(-len(panels) // columns), min(columns, len(panels))
        self.height += rows * (tall + GAP) - GAP + _FOOT
        if axes.x_title:
            middle = left + (across * (wide + GAP) - GAP) / 2
            self.shapes.append(label(middle, self.height + TITLE, axes.x_title, "middle", TITLE))
            self.height += TITLE + 8

    def svg(self, title: str, caption: str) -> str:
        """Return the SVG document, with title and caption for screen readers."""
        wide, tall = (f"{size * POINT:.2f}" for size in (self.width, self.height + 2))
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}pt" height="{tall}pt" viewBox="0 0 {wide} {tall}" role="img">'
        texts = f"<title>{escape(title)}</title><desc>{escape(caption)}</desc>"
        body = "\n".join(self.shapes)
        return replace_colours(f'{head}{texts}\n<g transform="scale({POINT})" font-family="{FONTS}">\n{body}\n</g></svg>\n', PALETTE)


def panel_width(width: float, columns: int, left: float) -> float:
    """Return a panel's width: `width` less `left` (for y labels, once) and gaps, per column."""
    return (width - left - GAP * (columns - 1) - 9) / columns


def replace_colours(svg: str, palette: Mapping[str, str]) -> str:
    """Replace each `var(--NAME)` of an SVG by the palette's colour.

    >>> replace_colours('<path fill="var(--ink)"/>', {"ink": "#000"})
    '<path fill="#000"/>'
    """
    return _VARIABLE.sub(lambda match: palette[match[1]], svg)


def label(x: float, y: float, text: str, anchor: str = "start", size: float = LABEL, weight: str = "normal", style: str = "normal") -> str:
    more = "".join(f' font-{name}="{value}"' for name, value in (("weight", weight), ("style", style)) if value != "normal")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size:g}" fill="{INK}"{more}>{escape(text)}</text>'


def vertical_label(x: float, y: float, text: str, anchor: str = "middle", size: float = TITLE) -> str:
    return f'<g transform="translate({x:.1f},{y:.1f}) rotate(-90)">{label(0, 0, text, anchor, size)}</g>'


def box(x: float, y: float, wide: float, tall: float, fill: str, stroke: str = "") -> str:
    """Return an SVG rectangle, outlined if `stroke` is given."""
    line = f' stroke="{stroke}" stroke-width="0.6"' if stroke else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}" fill="{fill}"{line} />'


def _swatch(kind: str, colour: str, x: float, y: float) -> str:
    if kind == "box":
        return box(x + 3, y - 4.5, 12, 9, colour, GRID)
    dash = {"dashed": ' stroke-dasharray="4,3"', "dotted": ' stroke-dasharray="1,3"'}.get(kind, "")
    width = 2 if kind == "line" else 1.2
    return f'<path d="M{x:.1f},{y:.1f}h17" fill="none" stroke="{colour}" stroke-width="{width}"{dash} />'
