"""Colours and stars at their limits."""

import pytest

from qualm.runners.reporting.heat import HeatCell, HeatMap, count_runs, shade, split_heat_map
from qualm.runners.scoring.families import stars


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
    assert count_runs([]) == [] and count_runs(["a"]) == [("a", 1)]
    assert count_runs(["a", "a", "b", "a", "a", "a"]) == [("a", 2), ("b", 1), ("a", 3)]


def test_a_cell_has_no_colour_unless_it_is_given_one():
    cell = HeatCell("1")
    assert (cell.heat, cell.tone, cell.strong, cell.undefined) == (0, "up", False, False)


def wide(columns, groups):
    """A table of one row whose cells are their places."""
    names = [(str(i), "") for i in range(columns)]
    return HeatMap("caption", "first", names, [("row", [HeatCell(str(i)) for i in range(columns)])], groups)


@pytest.mark.parametrize(
    ("columns", "groups", "parts"),
    [
        (3, [("a", 3)], [("012", [("a", 3)])]),
        (4, [("a", 4)], [("01", [("a", 2)]), ("23", [("a", 2)])]),
        (7, [], [("01", []), ("23", []), ("456", [])]),
        (8, [("a", 2), ("b", 5), ("c", 1)], [("01", [("a", 2)]), ("23", [("b", 2)]), ("456", [("b", 3)]), ("7", [("c", 1)])]),
    ],
)
def test_a_wide_table_is_cut_between_its_groups_and_evenly_within(columns, groups, parts):
    found = split_heat_map(wide(columns, groups), 3)
    assert [("".join(c.value for c in piece.rows[0][1]), piece.groups) for piece in found] == parts
    assert all("".join(name for name, _ in piece.columns) == cells for piece, (cells, _) in zip(found, parts, strict=True))
    assert {(piece.caption, piece.first, piece.rows[0][0]) for piece in found} == {("caption", "first", "row")}


def test_ten_columns_fit_a_page():
    assert len(split_heat_map(wide(10, []))) == 1 and len(split_heat_map(wide(11, []))) == 2
