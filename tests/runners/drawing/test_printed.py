"""Figures for print: as wide as asked for, nothing left to a style sheet, nothing out of the page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from qualm.runners.drawing.colours import GRID, INK, MUTED, PAPER, SERIES
from qualm.runners.drawing.plot import Plot, between
from qualm.runners.drawing.printed import BAR, PALETTE, Axes, Drawing, PlotPanel, coloured, cut, panel_width, units


def luminance(colour: str) -> float:
    """Relative, by WCAG."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_widths() -> None:
    assert units("85mm") == units("column") == units("85") and units("page") > 2 * units("column")
    for wrong in ("", "wide", "59", "401", "nan", "1e9"):
        with pytest.raises(ValueError, match="expected column"):
            units(wrong)


def test_every_colour_is_written_out_and_dark_enough_for_a_line() -> None:
    for name in (INK, MUTED, GRID, PAPER, BAR, *SERIES):
        assert coloured(name, PALETTE).startswith("#")
    assert all((1.05) / (luminance(PALETTE[f"c{i}"]) + 0.05) > 2 for i in range(8)), "contrast with paper"


def test_names_that_differ_at_their_ends_stay_apart() -> None:
    names = [f"semantic_entropy@verdicts={kind}" for kind in ("strict", "loose")]
    assert len({cut(name, 100) for name in names}) == 2 and all(len(cut(name, 100)) <= 100 / 5.6 for name in names)


def test_panels_share_axes_and_stay_on_the_page() -> None:
    drawing = Drawing(units("column"))
    drawing.legend([("box #000", "a"), ("line #000", "b" * 50), ("dashed #000", "c"), ("dotted #000", "d")])
    wide = panel_width(drawing.width, 2, 40)
    panels = [PlotPanel(f"model {i}", [Plot(wide, 80, between((0, 1), (0, wide)), between((0, 1), (80, 0)))]) for i in range(3)]
    drawing.panels(panels, Axes([(0, "low"), (1, "high")], [[(0, "zero"), (1, "one")]], "across", ("up",)), 2, 40)
    text = drawing.svg("A < B", "said & done")
    root = ET.fromstring(text)
    width, height = (float(root.get(side, "").removesuffix("pt")) for side in ("width", "height"))
    assert (
        width == pytest.approx(85 / 25.4 * 72, abs=0.01)
        and "var(" not in text
        and "http" not in text.replace("http://www.w3.org/2000/svg", "")
    )
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("zero") == 2 and words.count("low") == 2 and words.count("up") == 2 and words.count("across") == 1
    ys = [float(y) * 0.7 for y in re.findall(r'<text x="[\d.]+" y="([\d.]+)"', text)]
    assert max(ys) < height and "Liberation Sans" in text
    assert Drawing(10).panels([], Axes([], []), 1, 0) is None  # type: ignore[func-returns-value]
