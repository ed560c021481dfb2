"""Removes API keys from messages and stored text: some servers send them back, plainly or in another encoding."""

import base64
import re
from urllib.parse import quote

SHORTEST = 8
"""Characters of a key below which a text may hold it by chance: EMPTY, none, token."""


def redacted(text: str, key: str) -> str:
    """A text without the key, however it is written: plainly, percent-encoded, in JSON escapes, in hexadecimal, base64 or UTF-16."""
    return pattern(key).sub("[key]", text.replace("\0", "")) if key else text


def reveals(text: str, key: str) -> bool:
    """Whether a text holds a key that is long enough not to stand there by chance."""
    return len(key) >= SHORTEST and pattern(key).search(text.replace("\0", "")) is not None


def pattern(key: str) -> re.Pattern[str]:
    """Every way in which a key may be written.

    >>> [bool(pattern("sk-1").search(t)) for t in ("SK-1", "%73k%2D1", "736b2d31", "c2stMQ", "sk-2")]
    [True, True, True, True, False]
    """
    letters = "".join(rf"(?:{re.escape(c)}|{re.escape(quote(c, safe=''))}|%{ord(c):02x}|\\+u00{ord(c):02x}|&\#{ord(c)};)" for c in key)
    raw = key.encode("utf-8", "surrogatepass")
    return re.compile("|".join([letters, raw.hex(), *_base64(raw)]), re.IGNORECASE)


def _base64(raw: bytes) -> list[str]:
    """The letters that a key has in base64, after zero, one or two other bytes: those that its neighbours shape are left out."""
    forms = []
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        whole = 8 * (before + len(raw)) // 6
        inner = coded[-(-8 * before // 6) : whole]
        if len(inner) >= SHORTEST * 3 // 4 or before == 0:
            forms.append("".join({"+": "[+-]", "/": "[/_]"}.get(c, c) for c in inner))
    return forms
