"""The members of one huge JSON object, one at a time: GQA's files are objects of a gigabyte, keyed by picture or question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHUNK = 1 << 20
_SPACE = " \t\r\n"
_ENDS = _SPACE + ",:}"


class JsonStreamError(Exception):
    """A file that is no JSON object, or stops in the middle. The message says where."""


def members(path: Path) -> Iterator[tuple[str, Any]]:
    """Key and value of every member, in order, with little more than one value in memory.

    Raises:
        JsonStreamError: the file is not an object, or is cut off.
    """
    decoder = json.JSONDecoder()
    with path.open(encoding="utf-8") as handle:
        text, at, first = "", 0, True

        def more(wrong: int | None = None, said: str = "the file stops in the middle") -> None:
            nonlocal text, at
            chunk = handle.read(max(CHUNK, len(text) - at))
            if not chunk:
                near = text[at:][-60:] if wrong is None else text[max(at, wrong - 30) : wrong + 30]
                raise JsonStreamError(f"{path}: expected a whole JSON object: {said}: {near!r}")
            text, at = text[at:] + chunk, 0

        def peek() -> str:
            nonlocal at
            while True:
                while at < len(text) and text[at] in _SPACE:
                    at += 1
                if at < len(text):
                    return text[at]
                more()

        def value() -> Any:
            """The value that begins here; read again with more text until something follows that ends it."""
            nonlocal at
            while True:
                try:
                    found, end = decoder.raw_decode(text, at)
                    if text[end : end + 1] and text[end] in _ENDS:
                        at = end
                        return found
                    more(end)  # a number that is cut in two, perhaps
                except json.JSONDecodeError as error:
                    more(error.pos, error.msg)

        if peek() != "{":
            raise JsonStreamError(f"{path}: expected a JSON object, it begins with {text[at : at + 20]!r}")
        at += 1
        while True:
            sign = peek()
            if sign == "}":
                return
            if not first:
                if sign != ",":
                    raise JsonStreamError(f"{path}: expected ',' or '}}', got {text[at : at + 20]!r}")
                at += 1
                peek()
            first = False
            key = value()
            if not isinstance(key, str) or peek() != ":":
                raise JsonStreamError(f"{path}: expected a key and ':', got {key!r} and {text[at : at + 20]!r}")
            at += 1
            peek()
            yield key, value()
