"""Drawings are small, inert and stable whatever was drawn before them."""

from __future__ import annotations

import re

from qualm.runners.reporting import charts
from qualm.runners.reporting.svg import tidy

CHANGES = [{"row": "a", "before": 0.5, "after": 0.75, "change": "better"}]
POINTS = [{"model": m, "x": i, "y": 2 * i + i % 2} for i, m in enumerate("abc")]


def test_the_same_rows_give_the_same_drawing_whatever_came_before() -> None:
    first = charts.dumbbells(CHANGES, ["a"], "f1")
    charts.scatter(POINTS, list("abc"), "x", "y", "other")
    assert charts.dumbbells(CHANGES, ["a"], "f1") == first
    assert len(first) < 9_000
    assert not re.search(r"aria|http|<script|font-family", first)


def test_text_is_escaped_and_only_shapes_are_kept() -> None:
    hostile = '<script>alert(1)</script>"&'
    drawn = charts.dumbbells([CHANGES[0] | {"row": hostile}], [hostile], "f2")
    assert "<script" not in drawn and "&lt;script&gt;alert(1)&lt;/script&gt;" in drawn
    foreign = '<svg xmlns="http://www.w3.org/2000/svg"><script>x</script><a href="x"><rect width="1" fill="red"/></a><foreignObject/></svg>'
    assert tidy(foreign, "f3") == '<svg role="img" />'


def test_ids_are_named_after_the_figure() -> None:
    clipped = (
        '<svg xmlns="http://www.w3.org/2000/svg"><defs><clipPath id="clip7"><rect x="0" y="0" width="9" height="9"/></clipPath></defs>'
    )
    drawn = tidy(f'{clipped}<g clip-path="url(#clip7)"><path d="M0,0" fill="red"/></g></svg>', "f4")
    assert set(re.findall(r'id="([^"]+)"', drawn)) == {"f4-0"}
    assert set(re.findall(r"url\(#([^)]+)\)", drawn)) == {"f4-0"}
