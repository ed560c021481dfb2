"""Marks of charts: where they are on the plot, and in which colours."""

from __future__ import annotations

import re

import pytest

from qualm.runners.runtime.colours import ACCENT, OVER, SERIES, UNDER
from qualm.runners.runtime.marks import draw_counts, draw_reliability, draw_risk_coverage, draw_set_sizes, excludes_zero
from qualm.runners.runtime.plot import Plot, linear_scale


def unit(y: tuple[float, float] = (0, 1)) -> Plot:
    return Plot(100, 100, linear_scale((0, 1), (0, 100)), linear_scale(y, (100, 0)))


def rects(plot: Plot) -> list[tuple[float, float, float, str]]:
    """Top, height, x and colour of each bar."""
    found = (re.search(r'x="([\d.]+)" y="([\d.]+)" width="[\d.]+" height="([\d.]+)" fill="(.+?)"', s) for s in plot.shapes)
    return [(float(m[2]), float(m[3]), float(m[1]), m[4]) for m in found if m]


def test_a_bin_is_accuracy_and_the_gap_to_confidence() -> None:
    plot = unit()
    rows = [
        {"bin_low": 0.5, "bin_high": 0.6, "accuracy": 0.2, "confidence": 0.55},
        {"bin_low": 0.9, "bin_high": 1.0, "accuracy": 1.0, "confidence": 0.95, "expected_low": 0.9, "expected_high": 1.0},
    ]
    draw_reliability(plot, rows)
    assert rects(plot) == [(80, 20, 50, ACCENT), (45, 35, 50, OVER), (5, 95, 90, ACCENT), (0, 5, 90, UNDER)]
    assert 'd="M95,10L95,0"' in plot.shapes[-1], "where calibrated answers would lie"
    solid = unit()
    draw_reliability(solid, rows[:1], "#ccc", solid=True)
    assert all('opacity="1"' in shape for shape in solid.shapes[:2]) and "#ccc" in solid.shapes[0]


def test_counts_and_sets_are_as_high_as_their_numbers() -> None:
    plot = unit((0, 50))
    draw_counts(plot, [{"bin_low": 0.0, "bin_high": 0.5, "n": 25}])
    assert rects(plot)[0][:2] == (50, 50)
    plot = Plot(100, 100, linear_scale((0.5, 2.5), (0, 100)), linear_scale((0, 1), (100, 0)))
    draw_set_sizes(plot, [{"size": 1, "score": "lac", "share": 0.25}, {"size": 1, "score": "aps", "share": 0.5}], ["lac", "aps"])
    (_, lac, left, blue), (_, aps, right, orange) = rects(plot)
    assert (lac, aps, blue, orange) == (25, 50, SERIES[0], SERIES[1]) and (left, right) == (4, 25)


def test_random_order_and_the_best_one_lie_under_the_curve() -> None:
    plot = unit()
    draw_risk_coverage(plot, [(0.1, 0.0), (1.0, 0.4)], [(0.6, 0.0), (1.0, 0.4)], 0.4)
    assert ['"M0,60L100,60"' in plot.shapes[0], '"M60,100L100,60"' in plot.shapes[1], '"M10,100L100,60"' in plot.shapes[2]] == [True] * 3
    draw_risk_coverage(plot := unit(), [(0.1, 0.0)], [], None)
    assert len(plot.shapes) == 1


@pytest.mark.parametrize(
    ("low", "high", "clear"),
    [
        (0.1, 0.2, True), (-0.2, -0.1, True), (-0.1, 0.1, False), (0.0, 0.2, False), (-0.2, 0.0, False),
        (None, None, False), (None, 0.2, False), (0.1, None, False),
    ],
)  # fmt: skip
def test_an_interval_that_ends_at_zero_holds_it_and_half_of_one_excludes_nothing(
    low: float | None, high: float | None, clear: bool
) -> None:
    assert excludes_zero({"low": low, "high": high}) is clear
