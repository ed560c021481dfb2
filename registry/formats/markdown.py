"""Untrusted text within Markdown, escaped: renderers pass HTML through, so a card's title could run as a script."""

import re
from html import escape

from qualm.registry.text import visible

_SIGNS = re.compile(r"[\\`*|~]|(?<!\w)_|_(?!\w)|\](?=[(\[:])")
"""Characters that could begin a code span, emphasis or a link, or end a cell; `_` within a word cannot."""
_NUMBERED = re.compile(r"\d{1,9}(?=[.)])")


def inline(text: object) -> str:
    r"""Escape text for a line of Markdown: no markup, no HTML, no hidden characters.

    >>> inline("a | b <b>*c*</b> my_name"), inline("# one\ntwo"), inline("1. [x](y)")
    ('a \\| b &lt;b&gt;\\*c\\*&lt;/b&gt; my_name', '\\# one two', '1\\. [x\\](y)')
    """
    line = " ".join(visible(" ".join(str(text).split())).split())
    marked = escape(_SIGNS.sub(r"\\\g<0>", line), quote=False)
    if number := _NUMBERED.match(marked):
        return f"{number[0]}\\{marked[number.end() :]}"
    return f"\\{marked}" if marked[:1] in tuple("#+-=") else marked


def code(text: object) -> str:
    """Return text as a Markdown code span, whatever backquotes it contains."""
    line = visible(" ".join(str(text).split()), 100_000)
    ticks = "`" * (1 + _longest(line))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def fenced(text: str, language: str) -> list[str]:
    """Return text as the lines of a Markdown code block, whatever fences it contains."""
    fence = "`" * max(3, 1 + _longest(text))
    return [f"{fence}{language}", text.strip("\n").rstrip(), fence]


def _longest(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
