import io

import pytest
from rich.text import Text

from qualm.registry.system.console import Console
from qualm.registry.system.tables import MIN_FILLED, folded, plain_table


def test_a_plain_table_has_no_lines_and_its_title_on_the_left():
    table = plain_table(Text("A title"))
    table.add_column("name")
    table.add_column("n")
    table.add_row("a", "1")
    out = io.StringIO()
    Console(file=out, width=60).print(table)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines == ["A title", "name  n", "a     1"]


LONG = "word " * 20


@pytest.mark.parametrize(
    "text, width, expected",
    [
        ("short\nlines", 40, "short\nlines"),
        (f"{LONG.strip()}\nnext", 40, None),
        ("  name: " + "x " * 20, 24, "  name: x x x x x x x x\n      x x x x x x x x x\n      x x x"),
    ],
)
def test_docstrings_are_filled_anew(text, width, expected):
    made = folded(text, width)
    assert all(len(line) <= width for line in made.splitlines()) and made.split() == text.split()
    assert expected is None or made == expected


def test_a_line_that_was_broken_for_its_length_goes_on_and_lists_do_not():
    first = "x" * MIN_FILLED
    assert folded(f"{first}\ngoes on\n- a point", 200) == f"{first} goes on\n- a point"
    assert folded(f"{first}\n- a point", 200) == f"{first}\n- a point" and folded(f"{first}\nname: more", 200) == f"{first}\nname: more"
    assert folded(f"{'x' * (MIN_FILLED - 1)}\nstays", 200) == f"{'x' * (MIN_FILLED - 1)}\nstays"
