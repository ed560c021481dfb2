"""Texts of others as they can be shown: of cards, servers, data sets, logs.

Such a text may hold what steers a terminal (ESC and the other control characters), turns its neighbours around (direction marks) or
hides. All of it is written out. What is printed goes through `qualm.registry.terminal.guard`, whoever prints it.
"""

import ast
import io
import json
import sys
import tokenize
import unicodedata
from typing import Any

LONGEST = 600
"""Characters of one text that a page shows; a question longer than this is cut, with its length told."""
_DIRECTION = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}


def hides(character: str) -> bool:
    """Whether a character steers, turns around or hides, instead of being seen; a line's end does not."""
    code = ord(character)
    if character in "\n\t" or 0x20 <= code < 0x7F:
        return False
    return code in _DIRECTION or unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn") or 0xE0000 <= code <= 0xE007F


def one_line(text: str) -> str:
    """A text on one line, everything that is not plainly seen written out.

    >>> one_line("a\\x1b[31m b\\n")
    'a\\\\x1b[31m b\\\\n'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else escaped(c) for c in text)


def masked(text: str, mark: str = "�") -> str:
    """A text on one line, a mark in the place of each character that is not plainly seen: with one of width 1, columns stay."""
    return text if text.isprintable() else "".join(c if c.isprintable() else mark for c in text)


def quoted(name: str) -> str:
    """A name as it is; in quotation marks where something in it had to be written out."""
    return name if name.isprintable() else repr(name)


def lines(text: str) -> str:
    """A text whose lines stay, everything that hides written out."""
    return text if text.isascii() and text.isprintable() else "".join(escaped(c) if hides(c) else c for c in text)


def escaped(character: str) -> str:
    """`\\x1b`, `\\u202e`."""
    return character.encode("unicode_escape").decode("ascii")


def visible(text: object, longest: int = LONGEST) -> str:
    """A text for a page, in which nothing is hidden: what hides stands as ⟨U+202E⟩."""
    raw = str(text)
    cut = f"… ({len(raw):,} characters)" if len(raw) > longest else ""
    return "".join(" " if c == "\t" else f"⟨U+{ord(c):04X}⟩" if hides(c) else c for c in raw[:longest]) + cut


def list_in_text(text: str) -> list[Any] | None:
    """Return the list that a text holds as JSON or as Python writes it; None where it holds none.

    NumPy's way to write an array of texts, without commas, would be read as one text and is none.

    >>> list_in_text('["a", 1]'), list_in_text("['a', 'b']"), list_in_text("['a' 'b']"), list_in_text("[0, 1)")
    (['a', 1], ['a', 'b'], None, None)
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            found = ast.literal_eval(text.strip())
            quoted_texts = sum(t.type == tokenize.STRING for t in tokenize.generate_tokens(io.StringIO(text.strip()).readline))
        except (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError):
            return None
        if quoted_texts != _texts_in(found):
            return None
    return found if isinstance(found, list) else None


def _texts_in(value: Any) -> int:
    """Return how many texts a value of lists and records holds, keys among them."""
    if isinstance(value, dict):
        return sum(map(_texts_in, (*value.keys(), *value.values())))
    return sum(map(_texts_in, value)) if isinstance(value, list | tuple | set) else isinstance(value, str | bytes)


def human(n: int | None) -> str:
    if n is None:
        return "-"
    size, units = float(n), ["B", "KiB", "MiB", "GiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{n} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


def plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))


def complain(*lines: str) -> None:
    print("qualm: " + "\n".join(lines), file=sys.stderr)
