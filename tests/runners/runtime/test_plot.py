"""Axes of plots that are written directly: their numbers are d3's, their labels tell values apart."""

import pytest

from qualm.runners.runtime import plot


@pytest.mark.parametrize(("low", "high", "count", "ticks"), [
    (0, 1, 5, [0, 0.2, 0.4, 0.6, 0.8, 1]), (0, 1, 4, [0, 0.2, 0.4, 0.6, 0.8, 1]), (0, 10, 4, [0, 2, 4, 6, 8, 10]), (0, 7, 2, [0, 5]),
    (-0.31, 0.47, 5, [-0.2, 0, 0.2, 0.4]), (1234, 5678, 5, [2000, 3000, 4000, 5000]), (0.1, 0.3, 4, [0.1, 0.15, 0.2, 0.25, 0.3]),
])  # fmt: skip
def test_ticks_are_those_of_d3(low, high, count, ticks):
    """By d3-array's rule: steps of 1, 2 or 5, whichever is nearest by ratio (it changes at the roots of 2, 10 and 50)."""
    assert plot.ticks(low, high, count) == pytest.approx(ticks, abs=1e-12)


def test_nice_ends_are_round_and_hold_both_values():
    for low, high in ((0.0, 0.43), (0.2, 0.9), (-3.7, 12.2), (0, 1e-3), (5.0, 5.1)):
        start, end = plot.nice_interval(low, high)
        assert start <= low < high <= end and end - start <= 1.4 * (high - low)
    assert plot.nice_interval(0, 1) == (0, 1), "round already"


def test_labels_tell_values_apart():
    assert (
        plot.format_numbers([0.5, 0.75]) == ["0.50", "0.75"]
        and plot.format_numbers([-0.0, 1]) == ["0", "1"]
        and plot.format_numbers([1e-12]) == ["0"]
    )
    assert plot.format_percent([0, 0.05]) == ["0%", "5%"] and plot.format_thousands([0, 1000, 2500]) == ["0", "1k", "2.5k"]


def test_labels_that_would_touch_are_left_out():
    panel = plot.Plot(100, 50, plot.linear_scale((0, 10), (0, 100)), plot.linear_scale((0, 1), (50, 0)))
    panel.x_axis([(x, f"{x}.000") for x in (0, 1, 5, 9, 10)])
    assert [text for text in ("0.000", "1.000", "5.000", "9.000", "10.000") if f">{text}<" in "".join(panel.shapes)] == [
        "0.000", "5.000", "9.000",
    ]  # fmt: skip
    assert "".join(panel.shapes).count("<line") == 6, "ticks stay"


def test_what_has_no_extent_is_drawn_in_the_middle():
    assert plot.linear_scale((2, 2), (0, 100))(2) == 50 and plot.axis_scale([3.0], (0, 100), log=True)(3.0) == 50
    assert plot.ticks(1, 1, 5) == [1]


def unit(width=100, height=50):
    return plot.Plot(width, height, plot.linear_scale((0, 1), (0, width)), plot.linear_scale((0, 1), (height, 0)))


@pytest.mark.parametrize(("second", "kept"), [(10.1, False), (10.3, True), (11.1, True)])
def test_labels_keep_four_pixels_apart(second, kept):
    """One digit is 6.2 pixels wide, half of it on either side of its tick."""
    panel = unit()
    panel.x_axis([(0, "0"), (second / 100, "1")])
    assert (">1<" in "".join(panel.shapes)) is kept


def test_bars_stand_between_their_values_whichever_comes_first():
    shape = '<rect x="20" y="10" width="40" height="30" fill="f" opacity="1" />'
    for x in ((0.2, 0.6), (0.6, 0.2)):
        for y in ((0.2, 0.8), (0.8, 0.2)):
            panel = unit()
            panel.rect(x, y, "f", 1, gap=False)
            assert panel.shapes == [shape]


def test_the_title_of_an_axis_stands_outside_of_its_labels():
    """3 pixels of tick, 3 beside it, the labels and 7 more."""
    bare, labelled = unit(), unit()
    bare.y_axis([], "up")
    labelled.y_axis([(0, "a"), (0.5, "abcde"), (1, "")], "up")
    assert "translate(-13,25)" in bare.shapes[-1] and "translate(-44,25)" in labelled.shapes[-1]
    assert plot.left_margin([]) == 26 and plot.left_margin(["ab", "a"]) == 26 + 2 * 6.2, "where a title of 11 has 9 pixels around it"


def test_a_page_is_as_wide_as_its_widest_plot_and_as_high_as_its_lowest():
    for plots in ([(0, unit(100, 50)), (60, unit(80, 40))], [(60, unit(80, 40)), (0, unit(100, 50))]):
        assert plot.stack_plots(plots, 30, 20).startswith('<svg width="142" height="126" viewBox="0 0 142 126" role="img">')
    assert '<g transform="translate(30,66)">' in plot.stack_plots([(60, unit())], 30, 20, 5)
