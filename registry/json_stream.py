"""The members of one huge JSON object, one at a time, and where asked for the items of a member that is a huge list.

GQA's files are objects of a gigabyte, keyed by picture or question; an Inspect log in JSON is an object whose `samples` are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

CHUNK = 1 << 20
_SPACE = " \t\r\n"
_ENDS = _SPACE + ",:}]"


class JsonStreamError(Exception):
    """A file that is no JSON object, or stops in the middle. The message says where."""


def members(path: Path, spread: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
    """Key and value of every member, in order, with little more than one value in memory.

    Args:
        path: the file.
        spread: members of which each item of their list is given alone, as (key, item). One that is no list comes whole.

    Raises:
        JsonStreamError: the file is not an object, or is cut off.
    """
    decoder = json.JSONDecoder()
    with path.open(encoding="utf-8") as handle:
        text, at = "", 0

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

        def entries(opening: str, closing: str, what: str) -> Iterator[None]:
            """Stops before every entry of the object or list that begins here, and after its end."""
            nonlocal at
            if peek() != opening:
                raise JsonStreamError(f"{path}: expected {what}, it begins with {text[at : at + 20]!r}")
            at += 1
            first = True
            while (sign := peek()) != closing:
                if not first:
                    if sign != ",":
                        raise JsonStreamError(f"{path}: expected ',' or '{closing}', got {text[at : at + 20]!r}")
                    at += 1
                    peek()
                first = False
                yield
            at += 1

        for _ in entries("{", "}", "a JSON object"):
            key = value()
            if not isinstance(key, str) or peek() != ":":
                raise JsonStreamError(f"{path}: expected a key and ':', got {key!r} and {text[at : at + 20]!r}")
            at += 1
            if peek() == "[" and key in spread:
                for _ in entries("[", "]", "a list"):
                    yield key, value()
            else:
                yield key, value()
