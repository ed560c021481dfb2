"""Removal of API keys from messages and stored text, since some servers echo them, in plain text or encoded."""

import base64
import re
from urllib.parse import quote

MIN_KEY_LENGTH = 8
"""Minimum length of a key to search for; shorter ones (EMPTY, none, token) occur by chance."""


def redact(text: str, key: str) -> str:
    """Replace the key in a text, in any encoding: percent, JSON, hexadecimal, base64, UTF-16."""
    return key_pattern(key).sub("[key]", text.replace("\0", "")) if key else text


def reveals(text: str, key: str) -> bool:
    """Return whether a text contains a key that is too long to occur by chance."""
    return len(key) >= MIN_KEY_LENGTH and key_pattern(key).search(text.replace("\0", "")) is not None


def key_pattern(key: str) -> re.Pattern[str]:
    """Return a pattern of all encodings of a key.

    >>> [bool(pattern("sk-1").search(t)) for t in ("SK-1", "%73k%2D1", "736b2d31", "c2stMQ", "sk-2")]
    [True, True, True, True, False]
    """
    letters = "".join(rf"(?:{re.escape(c)}|{re.escape(quote(c, safe=''))}|%{ord(c):02x}|\\+u00{ord(c):02x}|&\#{ord(c)};)" for c in key)
    raw = key.encode("utf-8", "surrogatepass")
    return re.compile("|".join([letters, raw.hex(), *_base64_forms(raw)]), re.IGNORECASE)


def _base64_forms(raw: bytes) -> list[str]:
    """Return the base64 forms of a key at offsets 0 to 2, without letters that depend on neighbours."""
    forms = []
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        whole = 8 * (before + len(raw)) // 6
        inner = coded[-(-8 * before // 6) : whole]
        if len(inner) >= MIN_KEY_LENGTH * 3 // 4 or before == 0:
            forms.append("".join({"+": "[+-]", "/": "[/_]"}.get(c, c) for c in inner))
    return forms
