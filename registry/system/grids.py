"""Tables that break no name and fit any terminal width."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from qualm.registry.system.console import Console

GAPS = (2, 1)


@dataclass
class Grid:
    """Terminal table; if too narrow, names get lines of their own, then values do too."""

    columns: Sequence[tuple[str, str]]
    """(heading, `left` or `right`) of each column; the first one holds the names."""
    title: Text = field(default_factory=Text)
    rows: list[list[Text]] = field(default_factory=list)

    def add(self, *cells: str | Text, style: str = "") -> None:
        """Append a row of cells, one per column, all in this style."""
        row = [cell.copy() if isinstance(cell, Text) else Text(cell) for cell in cells]
        for cell in row:
            cell.stylize_before(style)
        self.rows.append(row)

    def fits(self, width: int) -> bool:
        return _wide(self._widths(), GAPS[-1]) <= width

    def print(self, console: Console) -> None:
        """Print the table in the widest layout that fits the terminal."""
        for line in self.lines(console.width):
            console.print(line, overflow="fold")

    def lines(self, width: int) -> Iterator[Text]:
        if self.title:
            yield self.title
        widths = self._widths()
        for gap in GAPS:
            if _wide(widths, gap) <= width:
                yield from (_line(row, self.columns, widths, gap) for row in [self._head(), *self.rows])
                return
        for gap in GAPS:
            if 2 + _wide(widths[1:], gap) <= width:
                yield Text("  ") + _line(self._head()[1:], self.columns[1:], widths[1:], gap)
                for name, *values in self.rows:
                    yield name
                    yield Text("  ") + _line(values, self.columns[1:], widths[1:], gap)
                return
        for name, *values in self.rows:
            yield name
            for (heading, _), value in zip(self.columns[1:], values, strict=True):
                if value.plain:
                    yield Text.assemble("  ", (f"{heading.replace(chr(10), '/')}: ", "dim"), value)

    def _head(self) -> list[Text]:
        return [Text(heading, style="bold") for heading, _ in self.columns]

    def _widths(self) -> list[int]:
        return [max(row[i].cell_len for row in [self._head(), *self.rows]) for i in range(len(self.columns))]


def in_parts(names: Sequence[str], build: Callable[[Sequence[str]], Grid], width: int) -> Iterator[Grid]:
    """Yield grids for consecutive slices of `names`, as many as fit `width` each."""
    start = 0
    while start < len(names):
        end = start + 1
        while end < len(names) and build(names[start : end + 1]).fits(width):
            end += 1
        yield build(names[start:end])
        start = end


def _wide(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _line(cells: Sequence[Text], columns: Sequence[tuple[str, str]], widths: Sequence[int], gap: int) -> Text:
    aligned = []
    for cell, (_, side), width in zip(cells, columns, widths, strict=True):
        aligned_cell = cell.copy()
        aligned_cell.align("right" if side == "right" else "left", width)
        aligned.append(aligned_cell)
    line = Text(" " * gap).join(aligned)
    line.rstrip()
    return line
