"""Plain tables and folded docstrings, as every command prints them."""

import re
import textwrap

from rich.table import Table
from rich.text import Text

from qualm.registry.terminal.console import Console


def plain_table(title: Text) -> Table:
    """A table without lines, its title on the left."""
    if title.cell_len <= Console().width:
        title.no_wrap, title.overflow = True, "ignore"  # it may be wider than the table
    return Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))


FILLED = 95
"""A line of a docstring that is as long as this was broken for its length; a shorter one ends where it should."""


def folded(text: str, width: int) -> str:
    """A docstring in so many columns: paragraphs filled anew, what belongs to a parameter indented below its name."""
    lines: list[str] = []
    long = False
    for line in text.splitlines():
        if long and line.strip() and not re.match(r"\s*(-|\w+:) ", line):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
        long = len(line) >= FILLED
    return "\n".join(_wrapped(line, width) for line in lines)


def _wrapped(line: str, width: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    below = indent + ("    " if re.match(r"\s*\w+: ", line) else "")
    wrapper = textwrap.TextWrapper(width, initial_indent=indent, subsequent_indent=below, break_long_words=False, break_on_hyphens=False)
    return wrapper.fill(line.strip()) if len(line) > width else line
