"""Plain tables and wrapped docstrings for all commands."""

import re
import textwrap

from rich.table import Table
from rich.text import Text

from qualm.registry.system.console import Console


def plain_table(title: Text) -> Table:
    """Return an empty Rich table with this title and without lines."""
    if title.cell_len <= Console().width:
        title.no_wrap, title.overflow = True, "ignore"  # it may be wider than the table
    return Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))


MIN_FILLED = 95
"""Length of a docstring line from which on the next line continues the same paragraph."""


def folded(text: str, width: int) -> str:
    """Return a docstring rewrapped to `width` characters, lists indented."""
    lines: list[str] = []
    long = False
    for line in text.splitlines():
        if long and line.strip() and not re.match(r"\s*(-|\w+:) ", line):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
        long = len(line) >= MIN_FILLED
    return "\n".join(_wrapped(line, width) for line in lines)


def _wrapped(line: str, width: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    below = indent + ("    " if re.match(r"\s*\w+: ", line) else "")
    wrapper = textwrap.TextWrapper(width, initial_indent=indent, subsequent_indent=below, break_long_words=False, break_on_hyphens=False)
    return wrapper.fill(line.strip()) if len(line) > width else line
