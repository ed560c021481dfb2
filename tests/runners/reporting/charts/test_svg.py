"""Drawings are small, inert and stable whatever was drawn before them."""

from __future__ import annotations

import re

from qualm.runners.reporting.charts import charts
from qualm.runners.reporting.charts.svg import tidy

ROWS = [{"bin_low": i / 10, "bin_high": (i + 1) / 10, "accuracy": i / 10, "confidence": i / 10 + 0.05, "n": i} for i in range(10)]


def test_the_same_rows_give_the_same_drawing_whatever_came_before() -> None:
    first = charts.reliability(ROWS, "f1")
    charts.lines([{"model": "a", "x": 1, "value": 1, "low": 0, "high": 2}], ["a"], "x", "y", "other")
    assert charts.reliability(ROWS, "f1") == first
    assert len(first) < 9_000
    assert not re.search(r"aria|http|<script|font-family", first)


def test_text_is_escaped_and_only_shapes_are_kept() -> None:
    hostile = '<script>alert(1)</script>"&'
    drawn = charts.dots([{"row": hostile, "model": "m", "value": 1.0, "low": 0.5, "high": 1.5}], [hostile], ["m"], "f2")
    assert "<script" not in drawn and "&lt;script&gt;alert(1)&lt;/script&gt;" in drawn
    foreign = '<svg xmlns="http://www.w3.org/2000/svg"><script>x</script><a href="x"><rect width="1" fill="red"/></a><foreignObject/></svg>'
    assert tidy(foreign, "f3") == '<svg role="img" />'


def test_ids_are_named_after_the_figure() -> None:
    drawn = charts.risk_coverage([{"coverage": 0.1, "risk": 0}, {"coverage": 1, "risk": 0.2}], [], 0.2, "f4")
    assert set(re.findall(r'id="([^"]+)"', drawn)) == {"f4-0"}
    assert set(re.findall(r"url\(#([^)]+)\)", drawn)) == {"f4-0"}
