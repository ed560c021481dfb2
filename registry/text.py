"""Safe display of texts from cards, servers, datasets and logs.

Such a text may hold terminal control characters (ESC), direction marks, or invisible characters. All of them are written out. Printed
text goes through `qualm.registry.system.guard` in any case.
"""

import ast
import difflib
import io
import json
import sys
import tokenize
import unicodedata
from bisect import bisect
from collections.abc import Iterable
from typing import Any

MAX_LENGTH = 600
"""Characters of one text that a page shows; a question longer than this is cut, with its length told."""
COMPARED = 1000
"""Maximum number of names that a misspelt one is compared with, those next to it in the alphabet."""
LISTED = 60
"""Maximum number of names in a list of choices."""
_DIRECTION = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}


class ProjectError(Exception):
    """Error that a command or stage cannot be carried out; says what to do."""


def is_hidden(character: str) -> bool:
    """Return whether a character is a control, direction mark, of private use or unassigned.

    Surrogates and tags (U+E0000 to U+E007F) are too. Line feed, tab and zero-width spaces are not.
    """
    code = ord(character)
    if character in "\n\t" or 0x20 <= code < 0x7F:
        return False
    return code in _DIRECTION or unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn") or 0xE0000 <= code <= 0xE007F


def one_line(text: str) -> str:
    r"""Return a text with line ends and invisible characters as escapes (`\n`, `\x1b`).

    >>> one_line("a\x1b[31m b\n")
    'a\\x1b[31m b\\n'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else escaped(c) for c in text)


def masked(text: str, mark: str = "�") -> str:
    """Return a text with line ends and invisible characters replaced by `mark`."""
    return text if text.isprintable() else "".join(c if c.isprintable() else mark for c in text)


def quoted(name: str) -> str:
    """Return a printable name unchanged, any other as its `repr`."""
    return name if name.isprintable() else repr(name)


def escape_hidden(text: str) -> str:
    """Return a text with invisible characters as escapes, line ends and tabs unchanged."""
    return text if text.isascii() and text.isprintable() else "".join(escaped(c) if is_hidden(c) else c for c in text)


def escaped(character: str) -> str:
    r"""Return a character's escape, such as `\x1b`."""
    return character.encode("unicode_escape").decode("ascii")


def visible(text: object, max_characters: int = MAX_LENGTH) -> str:
    """Return a text for a page: hidden characters as ⟨U+202E⟩, cut at `max_characters`."""
    raw = str(text)
    cut = f"… ({len(raw):,} characters)" if len(raw) > max_characters else ""
    return "".join(" " if c == "\t" else f"⟨U+{ord(c):04X}⟩" if is_hidden(c) else c for c in raw[:max_characters]) + cut


def list_in_text(text: str) -> list[Any] | None:
    """Return the list that a JSON or Python text spells; None if it spells none.

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
    """Return the number of texts in nested lists and dicts, keys included."""
    if isinstance(value, dict):
        return sum(map(_texts_in, (*value.keys(), *value.values())))
    return sum(map(_texts_in, value)) if isinstance(value, list | tuple | set) else isinstance(value, str | bytes)


def count(n: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 stage", "2,000 stages".

    >>> count(1, "stage"), count(2000, "stage"), count(2, "entry", "entries")
    ('1 stage', '2,000 stages', '2 entries')
    """
    return f"{n:,} {singular if n == 1 else plural or f'{singular}s'}"


def format_size(n: int | None) -> str:
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


def nearest(word: str, choices: Iterable[str], limit: int = 1, otherwise: str = "") -> str:
    """Return "did you mean 'x'?"; if nothing is similar, `otherwise` or all choices."""
    choices = sorted(choices)
    start = max(0, bisect(choices, word) - COMPARED // 2)
    near = difflib.get_close_matches(word[:LISTED], choices[start : start + COMPARED], limit, 0.6)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    if otherwise:
        return otherwise
    more = f" and {len(choices) - LISTED:,} more" if len(choices) > LISTED else ""
    return f"there are: {', '.join(choices[:LISTED])}{more}" if choices else "there are none"
