"""Grids in print: a wide one goes on below itself."""

from __future__ import annotations

import re

import pytest

from qualm.runners.plugins.exports._grids import CELL, grid
from qualm.runners.runtime.printed import CHARACTER, Drawing, plot_width, shorten_text


def row(variant: str, value: float | None, p: float | None = None, **more: object) -> dict[str, object]:
    return {"estimator": "p_true", "variant": variant, "value": value, "p_adjusted": p, "collapsed": None} | more


def test_a_wide_grid_goes_on_below_itself_and_stays_within_its_width() -> None:
    variants = [f"v{i}" for i in range(20)]
    drawing = grid(plot_width("column"), [row(v, 0.5) for v in variants], dict.fromkeys(variants, "image"), 1.0)
    svg = drawing.svg("t", "c")
    rights = [float(x) + float(w) for x, w in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', svg)]
    assert svg.count(">p_true<") == 3 and max(rights) <= plot_width("column") and svg.count(">+.50<") == 20
    assert grid(plot_width("page"), [row(v, 0.5) for v in variants], {}, 1.0).height < drawing.height / 2


def test_colour_is_of_the_sign_and_none_of_a_collapse() -> None:
    svg = grid(300, [row("a", 1.0), row("b", -1.0, 0.04), row("c", 0.9, collapsed="says yes"), row("d", 1.0, 0.2)], {}, 1.0).svg("", "")
    assert "#66aad1" in svg and "#e69e66" in svg and svg.count("#66aad1") == 2 and ">−1.00*<" in svg and ">+.90<" in svg


def test_as_many_cells_stand_side_by_side_as_there_is_room_for_and_one_where_there_is_none() -> None:
    rows = [row(f"v{i}", 0.5) for i in range(4)]
    room = len("p_true") * CHARACTER + 10 + 2 * CELL + 9
    assert grid(room + 0.01, rows, {}, 1.0).svg("", "").count(">p_true<") == 2
    assert grid(room - 0.5, rows, {}, 1.0).svg("", "").count(">p_true<") == 4
    empty, one, four = Drawing(50).height, grid(50, rows[:1], {}, 1.0).height, grid(50, rows, {}, 1.0).height
    assert four - empty == pytest.approx(4 * (one - empty))


def test_a_long_modality_is_cut_to_its_columns() -> None:
    modality = {"a": "photographic", "b": "photographic", "c": "handwritten"}
    svg = grid(300, [row(variant, 0.5) for variant in modality], modality, 1.0).svg("", "")
    assert (
        f">{shorten_text('photographic', 2 * CELL)}<" in svg
        and f">{shorten_text('handwritten', CELL)}<" in svg
        and "handwritten" not in svg
    )


def test_stars_are_for_less_than_each_limit_and_colour_ends_at_the_strongest() -> None:
    for p, stars in ((None, ""), (0.05, ""), (0.049, "*"), (0.01, "*"), (0.009, "**"), (0.001, "**"), (0.0009, "***")):
        assert f">+.50{stars}<" in grid(300, [row("a", 0.5, p)], {}, 1.0).svg("", "")
    assert grid(300, [row("a", 1.0), row("b", 2.0)], {}, 1.0).svg("", "").count("#66aad1") == 2


def test_numbers_have_a_sign_and_no_zero_before_the_point() -> None:
    shown = {0.256: "+.26", -0.256: "−.26", 0.004: "+.00", 0.0: "+.00", 1.0: "+1.00", -10.0: "−10.00", 20.5: "+20.50"}
    for value, text in shown.items():
        assert f">{text}<" in grid(300, [row("a", value)], {}, 1.0).svg("", "")
