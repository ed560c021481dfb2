"""Figures for print: as wide as asked for, nothing left to a style sheet, nothing out of the page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from qualm.runners.runtime.colours import GRID, INK, MUTED, PAPER, SERIES
from qualm.runners.runtime.plot import Plot, linear_scale
from qualm.runners.runtime.printed import (
    BAR,
    PALETTE,
    Axes,
    Drawing,
    PlotPanel,
    box,
    panel_width,
    plot_width,
    replace_colours,
    shorten_text,
)


def luminance(colour: str) -> float:
    """Relative, by WCAG."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_widths() -> None:
    assert plot_width("85mm") == plot_width("column") == plot_width("85") and plot_width("page") > 2 * plot_width("column")
    for wrong in ("", "wide", "59", "401", "nan", "1e9"):
        with pytest.raises(ValueError, match="expected column"):
            plot_width(wrong)
    assert [round(plot_width(end) * 0.7 / 72 * 25.4, 9) for end in ("60", "400mm", "page")] == [60, 400, 175]


def test_every_colour_is_written_out_and_dark_enough_for_a_line() -> None:
    for name in (INK, MUTED, GRID, PAPER, BAR, *SERIES):
        assert replace_colours(name, PALETTE).startswith("#")
    assert all((1.05) / (luminance(PALETTE[f"c{i}"]) + 0.05) > 2 for i in range(8)), "contrast with paper"


def test_names_that_differ_at_their_ends_stay_apart() -> None:
    names = [f"semantic_entropy@verdicts={kind}" for kind in ("strict", "loose")]
    assert len({shorten_text(name, 100) for name in names}) == 2 and all(len(shorten_text(name, 100)) <= 100 / 5.6 for name in names)

    assert [shorten_text("abcdefghijklm"[:n], 70) for n in (12, 13)] == ["abcdefghijkl", "abcdefgh…klm"], "room for 12"
    assert shorten_text("abcdefghijklm", 70, 14) == "abcde…lm" and shorten_text("abcdefgh", 0) == "ab…h", (
        "for 8 larger ones, and for 4 in any case"
    )


def test_a_legend_goes_on_below_where_its_line_is_full() -> None:
    """A text of 10 letters is 56 wide, its swatch 20, and 14 are between it and the next one, but not behind the last of a line."""
    entries = [("line #000", "a" * 10), ("dashed #111", "b" * 5), ("box #222", "c" * 5), ("dotted #333", "d" * 50), ("line #444", "e")]
    for width, places in (
        (138, [(0, 13), (90, 13), (0, 28), (0, 43), (0, 58)]),
        (137, [(0, 13), (0, 28), (62, 28), (0, 43), (0, 58)]),
        (400, [(0, 13), (90, 13), (152, 13), (0, 28), (314, 28)]),
    ):
        drawing = Drawing(width)
        drawing.legend(entries)
        texts = [re.search(r'<text x="([\d.]+)" y="([\d.]+)"', shape) for shape in drawing.shapes[1::2]]
        assert [(float(m[1]) - 20, float(m[2])) for m in texts if m] == places and drawing.height == places[-1][1] + 8
    assert drawing.shapes[::2] == [
        '<path d="M0.0,9.6h17" fill="none" stroke="#000" stroke-width="2" />',
        '<path d="M90.0,9.6h17" fill="none" stroke="#111" stroke-width="1.2" stroke-dasharray="4,3" />',
        box(155, 5.1, 12, 9, "#222", GRID),
        '<path d="M0.0,24.6h17" fill="none" stroke="#333" stroke-width="1.2" stroke-dasharray="1,3" />',
        '<path d="M314.0,24.6h17" fill="none" stroke="#444" stroke-width="2" />',
    ]
    untouched = Drawing(100)
    untouched.legend([])
    assert untouched.height == 3


def test_panels_stand_where_their_place_is_and_only_the_outer_ones_have_labels() -> None:
    """Three of two plots each, 100 wide and 80 and 30 high, in two columns: 17 for a heading, 8 between plots, 16 between panels."""
    assert panel_width(265, 2, 40) == 100
    drawing = Drawing(265)
    panels = [
        PlotPanel(name, [Plot(100, tall, linear_scale((0, 1), (0, 100)), linear_scale((0, 1), (tall, 0))) for tall in (80, 30)])
        for name in "PQR"
    ]
    drawing.panels(panels, Axes([(0, "left"), (1, "right")], [[(0.5, "half")], [(0, "none")]], "across", ("up",)), 2, 40)
    places = [(x, y) for x, y in re.findall(r'<g transform="translate\(([\d.]+),([\d.]+)\)">', "".join(drawing.shapes))]
    assert places == [("40", "20"), ("40", "108"), ("156", "20"), ("156", "108"), ("40", "171"), ("40", "259")]
    headings = [shape for shape in drawing.shapes if 'font-weight="bold"' in shape]
    assert [re.findall(r'[xy]="([\d.]+)"', shape) for shape in headings] == [["40.0", "14.0"], ["156.0", "14.0"], ["40.0", "165.0"]]
    upright = [re.findall(r"translate\(([\d.,]+)\) rotate", shape)[0] for shape in drawing.shapes if "rotate(-90)" in shape]
    assert upright == ["10.0,60.0", "10.0,211.0"], "one title for two plots"
    assert '<text x="148.0" y="318.0" text-anchor="middle"' in drawing.shapes[-1] and ">across<" in drawing.shapes[-1]
    assert drawing.height == 326
    assert ["half" in "".join(p.shapes) for panel in panels for p in panel.plots] == [True, False, False, False, True, False]
    assert ["none" in "".join(p.shapes) for panel in panels for p in panel.plots] == [False, True, False, False, False, True]
    assert ["left" in "".join(p.shapes) for panel in panels for p in panel.plots] == [False, False, False, True, False, True]
    assert [len(p.below) for panel in panels for p in panel.plots] == [1, 0] * 3, "lines across the first plot of a panel alone"
    assert drawing.svg("", "").count('height="229.60pt"') == 1, "two more than is drawn, at seven tenths"


def test_panels_share_axes_and_stay_on_the_page() -> None:
    drawing = Drawing(plot_width("column"))
    drawing.legend([("box #000", "a"), ("line #000", "b" * 50), ("dashed #000", "c"), ("dotted #000", "d")])
    wide = panel_width(drawing.width, 2, 40)
    panels = [PlotPanel(f"model {i}", [Plot(wide, 80, linear_scale((0, 1), (0, wide)), linear_scale((0, 1), (80, 0)))]) for i in range(3)]
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
