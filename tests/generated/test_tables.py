"""Markdown tables."""

from __future__ import annotations

from tests.generated_pages import table


def test_cells_stay_cells() -> None:
    assert table(("name", "meaning"), [("a", "b | c\nd"), ("", "e")]) == "| name | meaning |\n|---|---|\n| `a` | b \\| c d |\n|  | e |\n"
