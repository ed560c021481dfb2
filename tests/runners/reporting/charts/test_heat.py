"""Colours and stars at their limits."""

import pytest

from qualm.runners.reporting.charts.heat import HeatCell, grouped, shade, stars


@pytest.mark.parametrize(
    ("arguments", "colour"),
    [
        ((0.0, 1.0), (0, "up")),
        ((1.0, 1.0), (52, "up")),
        ((-1.0, 1.0), (52, "down")),
        ((2.0, 1.0), (52, "up")),
        ((0.5, 2.0), (13, "up")),
        ((0.75, 0.5, 0.5), (26, "up")),
        ((0.5, 0.5, 0.5), (0, "up")),
        ((0.499, 0.5, 0.5), (0, "down")),
        ((0.3, 0.0), (0, "up")),
        ((0.3, -1.0), (0, "up")),
        ((0.3, 0.5), (31, "up")),
    ],
)
def test_colour_is_the_share_of_the_most_extreme_and_its_side(arguments, colour):
    assert shade(*arguments) == colour


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (None, ""), (float("nan"), ""), (1.0, ""), (0.05, ""), (0.0499, "*"), (0.01, "*"), (0.0099, "**"), (0.001, "**"),
        (0.00099, "***"), (0.0, "***"),
    ],
)  # fmt: skip
def test_stars(p, text):
    assert stars(p) == text


def test_neighbours_of_one_name_are_one_heading():
    assert grouped([]) == [] and grouped(["a"]) == [("a", 1)]
    assert grouped(["a", "a", "b", "a", "a", "a"]) == [("a", 2), ("b", 1), ("a", 3)]


def test_a_cell_has_no_colour_unless_it_is_given_one():
    cell = HeatCell("1")
    assert (cell.heat, cell.tone, cell.strong, cell.undefined) == (0, "up", False, False)
