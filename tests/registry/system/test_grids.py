"""Tables at every width: no name is broken that fits on a line, and no line is wider than the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from rich.console import Console
from rich.text import Text

from qualm.registry.system.grids import Grid, in_parts

LONG = "hallucination_change_correlation_of_somebody"


def grid(names: list[str], models: list[str]) -> Grid:
    made = Grid([("metric", "left"), *((m, "right") for m in models), ("n", "right")], Text("scenes"))
    for name in names:
        made.add(name, *("0.500 0.400–0.600" for _ in models), "1,200")
    return made


def printed(made: Grid, width: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    made.print(Console(width=width))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    return lines


def test_in_one_piece_where_it_fits(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(grid(["accuracy", "ece"], ["base"]), 80, capsys)
    assert lines[0] == "scenes" and [line.split()[0] for line in lines[1:]] == ["metric", "accuracy", "ece"]
    assert len({len(line) for line in lines[1:]}) == 1, "columns stand below each other"


@pytest.mark.parametrize("width", [60, 80])
def test_long_names_stand_on_lines_of_their_own(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(grid([LONG, "ece"], ["base", "tuned"]), width, capsys)
    assert LONG in lines and "ece" in lines and sum("0.500 0.400–0.600" in line for line in lines) == 2


@pytest.mark.parametrize("width", [60, 80])
def test_long_names_of_columns_give_a_line_for_every_value(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    model = "a_model_of_a_lab_with_a_name_of_nearly_as_many_letters_as_may_be"
    lines = printed(grid([LONG], [model[: width - 25], f"{model[: width - 25]}_2"]), width, capsys)
    assert LONG in lines and sum(line.endswith("0.400–0.600") for line in lines) == 2


def test_as_many_columns_as_fit() -> None:
    parts = list(in_parts(["a", "b", "c", "d"], lambda names: grid(["accuracy"], list(names)), 60))
    assert [len(part.columns) - 2 for part in parts] == [2, 2] and all(part.fits(60) for part in parts)


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (22, ["metric     base  note", "accuracy   0.50  first", "ece       0.123"]),
        (21, ["metric    base note", "accuracy  0.50 first", "ece      0.123"]),
        (20, ["metric    base note", "accuracy  0.50 first", "ece      0.123"]),
        (19, ["   base  note", "accuracy", "   0.50  first", "ece", "  0.123"]),
        (14, ["   base  note", "accuracy", "   0.50  first", "ece", "  0.123"]),
        (13, ["   base note", "accuracy", "   0.50 first", "ece", "  0.123"]),
        (12, ["accuracy", "  base: 0.50", "  note: first", "ece", "  base: 0.123"]),
    ],
)
def test_every_shape_begins_at_the_width_that_it_needs(width: int, lines: list[str]) -> None:
    made = Grid([("metric", "left"), ("base", "right"), ("note", "left")])
    made.add("accuracy", "0.50", "first")
    made.add("ece", "0.123", "")
    assert [line.plain for line in made.lines(width)] == lines
    assert made.fits(width) == (width >= 20)


def test_a_column_that_fits_nowhere_stands_alone() -> None:
    def build(names: Sequence[str]) -> Grid:
        assert len(made) < 9, "and the others follow it"
        made.append(list(names))
        return grid(["accuracy"], list(names))

    made: list[list[str]] = []
    assert [[name for name, _ in part.columns[1:-1]] for part in in_parts(["a", "b", "c"], build, 10)] == [["a"], ["b"], ["c"]]
