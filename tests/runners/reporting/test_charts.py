"""The drawings: the geometry of what comes out, and every shape, held to tests/golden/charts.json.

After a change that is meant: python -m tests.runners.reporting.test_charts
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from qualm.runners.reporting import charts
from qualm.runners.runtime.colours import ACCENT, INK, MUTED, OVER, RIGHT, SERIES, UNDER, WRONG

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "charts.json"
MANY = [f"m{i}" for i in range(len(SERIES) + 1)]
FEW = MANY[:-1]


def values(models, rows=("a", "b")):
    return [{"row": r, "model": m, "value": 0.1 * i, "low": 0.1 * i - 0.05, "high": 0.1 * i + 0.05, "group": r}
            for i, m in enumerate(models) for r in rows]  # fmt: skip


CHANGES = [{"row": "a", "before": 0.5, "after": 0.75, "change": "better"}, {"row": "b", "before": 0.5, "after": 0.25, "change": "worse"}]
DOTS = [{"model": m, "x": float(i), "y": 2.0 * i + 1} for i, m in enumerate(FEW)]


def test_a_change_goes_from_a_ring_to_a_dot_in_the_colour_of_its_test():
    svg = charts.dumbbells([*CHANGES, {"row": "a", "before": 0.25, "after": 0.5, "change": "open"}], ["a", "b"])
    rings, dots = shapes(svg, "circle")[::2], shapes(svg, "circle")[1::2]
    assert [ring["stroke"] for ring in rings] == [dot["fill"] for dot in dots] == [RIGHT, WRONG, MUTED]
    assert [float(dot["cx"]) > float(ring["cx"]) for ring, dot in zip(rings, dots, strict=True)] == [True, False, True]
    assert [dot["cy"] for dot in dots] == ["10", "30", "10"], "twenty pixels a row"


def test_a_dot_per_model_in_its_colour_and_the_least_squares_line_through_them():
    svg = charts.scatter(DOTS[:3], FEW[:3], "x", "y")
    circles = shapes(svg, "circle")
    assert [circle["fill"] for circle in circles] == list(SERIES[:3])
    (x0, y0), (x1, y1), (x2, y2) = ((float(circle["cx"]), float(circle["cy"])) for circle in circles)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2) and y0 - y1 == pytest.approx(y1 - y2, abs=0.2) and x2 > x0 and y2 < y0
    (line,) = shapes(svg, "path")
    ends = [tuple(map(float, point.split(","))) for point in line["d"][1:].split("L")]
    assert ends == [pytest.approx((x0, y0), abs=0.1), pytest.approx((x2, y2), abs=0.1)], "these three lie on a line"
    assert not shapes(charts.scatter(DOTS[:2], FEW[:2], "x", "y"), "path")
    assert not shapes(charts.scatter([dot | {"x": 1.0} for dot in DOTS[:3]], FEW[:3], "x", "y"), "path")
    assert {circle["fill"] for circle in shapes(charts.scatter(DOTS[:3], MANY, "x", "y"), "circle")} == {ACCENT}


def test_bars_are_as_tall_as_their_values_and_stand_beside_each_other():
    rows = [{"group": g, "model": m, "value": v, "low": v - 0.1, "high": v + 0.1} for g in "ab" for m, v in (("x", 0.25), ("y", 0.5))]
    svg = charts.bars(rows, ["a", "b"], ["x", "y"])
    first, second = boxes(svg, SERIES[0]), boxes(svg, SERIES[1])
    assert [box[3] for box in second] == [pytest.approx(2 * box[3], abs=0.2) for box in first]
    assert [box[0] + box[2] for box in first] == [pytest.approx(box[0], abs=0.1) for box in second]
    assert len(shapes(svg, "path")) == 4 and charts.bars(rows, list("abcde"), ["x", "y"]).count("<text") > svg.count("<text")
    below = charts.bars([rows[0] | {"value": -0.25, "low": -0.5, "high": 0.0}], ["a"], ["x"])
    assert boxes(below, SERIES[0])[0][1] == 0, "from 0 down"


def shapes(svg, tag):
    return [dict(re.findall(r'([\w-]+)="([^"]*)"', attributes)) for attributes in re.findall(rf"<{tag} ([^>]*)/>", svg)]


def boxes(svg, fill):
    """(x, y, width, height) of the bars of one colour."""
    return [tuple(float(r[k]) for k in ("x", "y", "width", "height")) for r in shapes(svg, "rect") if r["fill"] == fill]


def test_a_reliability_diagram_shows_where_confidence_is_above_accuracy_and_where_below():
    """190 by 150 pixels: the first bin has .25 and is sure at .5, the second .75 at .625; 4 answers of at most 8 fill half of 30 pixels."""
    names = ("bin_low", "bin_high", "confidence", "accuracy", "n")
    rows = [dict(zip(names, row, strict=True)) for row in ((0.0, 0.5, 0.5, 0.25, 4), (0.5, 1.0, 0.625, 0.75, 8))]
    svg = charts.reliability(rows)
    assert boxes(svg, ACCENT) == [(0, 112.5, 95, 37.5), (95, 56.2, 95, 93.8)]
    assert (boxes(svg, OVER), boxes(svg, UNDER)) == ([(0, 75, 95, 37.5)], [(95, 37.5, 95, 18.8)])
    assert boxes(svg, MUTED) == [(0, 15, 95, 15), (95, 0, 95, 30)]
    assert boxes(charts.reliability(rows, max_count=16), MUTED) == [(0, 22.5, 95, 7.5), (95, 15, 95, 15)], "panels share their axes"
    assert svg.count("<path") == 1, "the diagonal alone"
    expected = charts.reliability([row | {"expected_low": 0.5, "expected_high": None if row["n"] == 8 else 0.75} for row in rows])
    assert [p["d"] for p in shapes(expected, "path")][1:] == ["M95,75L95,37.5"], "none where a bin has no line"


def test_risk_and_coverage_share_one_scale():
    curve = [{"coverage": 0.5, "risk": 0.2}, {"coverage": 1.0, "risk": 0.4}]
    svg = charts.risk_coverage(curve, [{"coverage": 0.75, "risk": 0.0}, {"coverage": 1.0, "risk": 0.4}], 0.4)
    assert [(p["stroke"], p["d"]) for p in shapes(svg, "path")] == [
        (MUTED, "M0,0L190,0"), (RIGHT, "M142.5,150L190,0"), (ACCENT, "M95,75L190,0"),
    ]  # fmt: skip
    assert "M95,112.5L190,75" in charts.risk_coverage(curve, [], None, max_risk=0.8)


def test_set_sizes_stand_beside_each_other_by_score():
    rows = [{"size": 1, "score": "lac", "share": 0.5}, {"size": 2, "score": "aps", "share": 0.25}]
    svg = charts.set_sizes(rows, ["lac", "aps"], range(1, 3))
    assert boxes(svg, SERIES[0]) == [(7.6, 0, 39.9, 130)] and boxes(svg, SERIES[1]) == [(142.5, 65, 39.9, 65)]


def test_shares_of_a_third_have_a_mark_for_every_tenth():
    svg = charts.set_sizes([{"size": 1, "score": "lac", "share": 0.3}], ["lac"], [1])
    assert re.findall(r'text-anchor="end"[^>]*>([^<]*)<', svg) == ["0%", "10%", "20%", "30%"]


def test_wrong_answers_hang_below_right_ones_and_labels_have_no_sign():
    rows = [{"low": 0.0, "high": 1.0, "share": 0.5, "verdict": "right"}, {"low": 1.0, "high": 2.0, "share": -0.5, "verdict": "wrong"}]
    svg = charts.right_and_wrong(rows, "perplexity")
    assert boxes(svg, RIGHT) == [(0, 0, 95, 65)] and boxes(svg, WRONG) == [(95, 65, 95, 65)]
    assert ">perplexity<" in svg and "−" not in svg and svg.count(">40%<") == 2
    assert "−" not in charts.right_and_wrong(rows[:1], "x")


def test_dots_of_models_keep_the_colour_of_their_place_among_all():
    rows = [{"row": "a", "model": m, "value": v, "low": v - 0.1, "high": v + 0.1} for m, v in (("m1", 0.25), ("m3", 0.75))]
    circles = shapes(charts.dots(rows, ["a"], ["m1", "m2", "m3"]), "circle")
    assert [c["fill"] for c in circles] == [SERIES[0], SERIES[2]]
    assert [c["cy"] for c in circles] == ["8.5", "17.5"], "nine pixels apart, in the middle of 26"
    (one,) = shapes(charts.dots(rows[:1], ["a"], ["m1"], 0.5), "circle")
    assert one["cy"] == "9.5"


def test_many_models_are_ticks_with_their_mean():
    rows = [{"row": "a", "model": m, "value": i / 10, "low": 0.0, "high": 1.0} for i, m in enumerate(MANY)]
    svg = charts.dots(rows, ["a"], MANY)
    ticks = [p for p in shapes(svg, "path") if p.get("stroke") == ACCENT]
    assert len(ticks) == len(MANY) and not shapes(svg, "circle")
    places = [float(t["d"][1:].partition(",")[0]) for t in ticks]
    mean = next(p["d"] for p in shapes(svg, "path") if p.get("fill") == INK)
    assert float(mean[1:].partition(",")[0]) == pytest.approx(sum(places) / len(places), abs=0.1)


def test_quartiles_of_right_lie_above_those_of_wrong():
    rows = [{"model": "a", "verdict": v, "q10": 0.0, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q90": 1.0} for v in ("right", "wrong")]
    svg = charts.quartiles(rows, ["a"])
    assert [(c["fill"], c["cy"]) for c in shapes(svg, "circle")] == [(RIGHT, "8.5"), (WRONG, "17.5")]
    assert [p["stroke-width"] for p in shapes(svg, "path")] == ["1", "3.5"] * 2


def series(models):
    return [{"model": m, "x": x, "value": v + i / 10, "low": v - 0.1, "high": v + 0.1}
            for i, m in enumerate(models) for x, v in ((1.0, 0.5), (10.0, 0.75), (100.0, 0.625))]  # fmt: skip


def test_lines_have_bands_where_they_are_few_and_a_mean_where_they_are_many():
    assert len([p for p in shapes(charts.lines(series(FEW[:3]), FEW, "x", "y"), "path") if p.get("opacity") == "0.12"]) == 3
    assert len(shapes(charts.lines(series(FEW[:4]), FEW, "x", "y"), "path")) == 4, "no bands"
    many = charts.lines(series(MANY), MANY, "x", "y")
    assert [p["stroke"] for p in shapes(many, "path")] == [ACCENT] * len(MANY) + [INK]
    goal = charts.lines(series(FEW[:1]), FEW, "x", "y", goal=0.5)
    assert [r["y1"] for r in shapes(goal, "line") if r.get("stroke-dasharray")] == ["149"], "160 pixels for .48 to .77"


def test_a_logarithmic_axis_puts_powers_of_ten_at_equal_distances():
    at = [float(c["cx"]) for c in shapes(charts.lines(series(FEW[:1]), FEW, "x", "y", log=True), "circle")]
    assert at == [12, 105, 198]
    linear = [float(c["cx"]) for c in shapes(charts.lines(series(FEW[:1]), FEW, "x", "y"), "circle")]
    assert linear == [12, 28.9, 198]
    unordered = charts.lines([{"model": "m0", "x": x, "value": 0.5, "low": 0.5, "high": 0.5} for x in (3, 8, 1)], FEW, "x", "y")
    assert [float(c["cx"]) for c in shapes(unordered, "circle")] == [65.1, 198, 12], "from the least to the largest, whatever comes first"
    assert re.findall(r'text-anchor="middle"[^>]*>(\d)<', unordered) == ["1", "3", "8"]


def test_ranks_run_from_first_at_the_top_with_names_at_both_ends():
    ranks = (("a", "up", "accuracy", 2), ("a", "up", "auroc", 1), ("b", "down", "accuracy", 1), ("b", "down", "auroc", 2))
    rows = [{"metric": m, "model": n, "place": p, "moved": moved, "before": f"{n} {p}", "after": f"{p} {n}"} for n, moved, m, p in ranks]
    svg = charts.rank_lines(rows, ["accuracy", "auroc"])
    assert [(p["stroke"], p["d"]) for p in shapes(svg, "path")] == [(RIGHT, "M60,52L180,8"), (WRONG, "M60,8L180,52")]
    assert all(f">{text}<" in svg for text in ("a 2", "1 a", "b 1", "2 b", "accuracy", "auroc"))
    five = [rows[0] | {"model": name, "place": place} for place, name in enumerate("abcde", 1)]
    assert [c["cy"] for c in shapes(charts.rank_lines(five, ["accuracy"]), "circle")] == ["8", "25.2", "42.5", "59.8", "77"], (
        "17 pixels each"
    )
    assert charts.rank_lines(five, ["accuracy"]).startswith('<svg width="120" '), "short names need no room beside the plot"


def test_what_is_written_directly_is_escaped_and_the_same_twice():
    hostile = '<script>alert(1)</script>"&'
    rows = [{"row": hostile, "model": "m", "value": 1.0, "low": 0.5, "high": 1.5}]
    svg = charts.dots(rows, [hostile], ["m"])
    assert svg == charts.dots(rows, [hostile], ["m"]) and ET.fromstring(svg).get("role") == "img"
    assert "<script" not in svg and "&lt;script&gt;alert(1)…" not in svg and "&lt;script&gt;" in svg


BIN = ("bin_low", "bin_high", "confidence", "accuracy", "n", "expected_low", "expected_high")
BINS = [dict(zip(BIN, row, strict=True)) for row in ((0.0, 0.5, 0.5, 0.25, 4, 0.4, 0.55), (0.5, 1.0, 0.625, 0.75, 1800, None, None))]
CURVE = [{"coverage": 0.5, "risk": 0.21}, {"coverage": 1.0, "risk": 0.43}]
SIZES = [
    {"size": n, "score": s, "share": share} for n, s, share in ((1, "lac", 0.53), (2, "lac", 0.47), (1, "aps", 0.25), (3, "aps", 0.75))
]
HISTOGRAM = [{"low": 0.1, "high": 0.6, "share": 0.53, "verdict": "right"}, {"low": 0.6, "high": 1.1, "share": -0.31, "verdict": "wrong"}]
QUARTILES = [
    {"model": m, "verdict": v, "q10": at, "q25": at + 0.1, "q50": at + 0.25, "q75": at + 0.3, "q90": at + 0.5}
    for m, at in (("a", 0.1), ("a model with a name that is long", 0.3))
    for v in ("right", "wrong")
]
RANKED = [
    {"metric": metric, "model": model, "place": place, "moved": moved, "before": f"{model} {place}", "after": f"{place} {model}"}
    for model, moved, *places in (("a model of ten", "up", 2, 1), ("b", "down", 1, 2), ("c", "same", 3, 3))
    for metric, place in zip(("accuracy", "auroc"), places, strict=True)
]

FIRST = [
    {"row": "an estimator with a name that has no room", "value": 0.9, "low": 0.85, "high": 0.95, "colour": ACCENT, "blind": False},
    {"row": "b+swapped_picture", "value": 0.6, "low": 0.5, "high": 0.7, "colour": MUTED, "blind": True},
    {"row": "c", "value": 0.55, "low": None, "high": None, "colour": SERIES[1], "blind": False},
]

DRAWN = {
    "dumbbells": lambda: charts.dumbbells(CHANGES, ["a", "b"]),
    "scatter": lambda: charts.scatter(DOTS[:3], FEW[:3], "x", "y"),
    "scatter of nine": lambda: charts.scatter(DOTS[:3], MANY, "x", "y"),
    "bars": lambda: charts.bars(values(FEW[:2]), ["a", "b"], FEW[:2]),
    "reliability": lambda: charts.reliability(BINS),
    "reliability beside others": lambda: charts.reliability(BINS[:1], max_count=16),
    "risk_coverage": lambda: charts.risk_coverage(CURVE, CURVE[:1], 0.43),
    "risk_coverage beside others": lambda: charts.risk_coverage(CURVE, [], None, max_risk=0.8),
    "risk_coverage without errors": lambda: charts.risk_coverage([{"coverage": 1.0, "risk": 0.0}], [], 0.0),
    "set_sizes": lambda: charts.set_sizes(SIZES, ["lac", "aps"], range(1, 4)),
    "set_sizes beside others": lambda: charts.set_sizes(SIZES[:1], ["lac"], [1, 2], max_share=0.9),
    "right_and_wrong": lambda: charts.right_and_wrong(HISTOGRAM, "perplexity"),
    "right alone": lambda: charts.right_and_wrong(HISTOGRAM[:1], "perplexity"),
    "quartiles": lambda: charts.quartiles(QUARTILES, [QUARTILES[0]["model"], QUARTILES[2]["model"]]),
    "dots": lambda: charts.dots(values(FEW[:3]), ["a", "b"], FEW[:3], 0.13),
    "dots of one model": lambda: charts.dots(values(FEW[:1], "abc"), ["b", "a"], FEW[:1]),
    "dots of one value": lambda: charts.dots([{"row": "a", "model": "m0", "value": 2.0, "low": 2.0, "high": 2.0}], ["a"], FEW),
    "dots of nine": lambda: charts.dots(values(MANY), ["a", "b"], MANY, 0.25),
    "lines": lambda: charts.lines(series(FEW[:3]), FEW, "shots", "accuracy"),
    "lines of four": lambda: charts.lines(series(FEW[:4]), FEW, "shots", "accuracy"),
    "lines of nine": lambda: charts.lines(series(MANY), MANY, "shots", "accuracy"),
    "lines to a goal": lambda: charts.lines(series(FEW[:1]), FEW, "shots", "accuracy", goal=0.9),
    "lines by powers": lambda: charts.lines(series(FEW[:2]), FEW, "shots", "accuracy", log=True),
    "lines of one value": lambda: charts.lines([{"model": "m0", "x": 3, "value": 0.5, "low": 0.5, "high": 0.5}], FEW, "x", "y"),
    "ranked": lambda: charts.ranked_dots(FIRST, 0.5),
    "ranked without a reference": lambda: charts.ranked_dots(FIRST[1:]),
    "bumps": lambda: charts.rank_lines(RANKED, ["accuracy", "auroc"]),
    "bumps of one": lambda: charts.rank_lines(RANKED[:1], ["accuracy", "auroc"]),
}


def test_ranked_rows_stand_in_order_with_their_numbers():
    svg = charts.ranked_dots(FIRST, 0.5)
    heights = [float(c["cy"]) for c in shapes(svg, "circle")]
    assert heights == sorted(heights) and len(heights) == 3
    assert [c["fill"] for c in shapes(svg, "circle")] == [ACCENT, "var(--paper)", SERIES[1]], "what does not look is a ring"
    assert [p.get("stroke-dasharray") for p in shapes(svg, "path")] == ["3,3", None, None], "no interval, no line"
    for half in ("low", "high"):
        alone = charts.ranked_dots([FIRST[0] | {half: None}, FIRST[1]])
        assert len(shapes(alone, "path")) == 1, "half an interval is none"
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", svg)
    assert [t for t in texts if t in ("0.9", "0.60", "0.550")] == ["0.9", "0.60", "0.550"]


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_directly(name):
    """To the pixel: sizes, ticks and margins as well, which nobody measures one by one."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert sorted(golden) == sorted(DRAWN)
    assert pieces(DRAWN[name]()) == golden[name]


def pieces(svg: str) -> list[str]:
    """A drawing with a shape a line, so that a difference is read at once."""
    return svg.replace("><", ">\n<").splitlines()


if __name__ == "__main__":
    known = {name: pieces(drawing()) for name, drawing in DRAWN.items()}
    GOLDEN.write_text("{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(of, sort_keys=True)}" for n, of in known.items()) + "\n}\n")
    print(f"{GOLDEN}: {len(known)} entries")
