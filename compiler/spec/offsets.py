"""Find the position in the file of a character within a YAML text, however it is quoted or folded."""

import re

from qualm.compiler.spec.errors import Position
from qualm.compiler.spec.yaml_positions import Document, Path_

_BEFORE = re.compile(r"(?:[&!]\S*\s+)*")
"""Anchors or tags before the text."""
_BLOCK = re.compile(r"[|>][-+0-9]*[^\n]*\n")
_ESCAPE = re.compile(r"\\(?:x..|u....|U........|.)", re.DOTALL)


def mark_within(document: Document, path: Path_, offset: int) -> Position:
    """Return the position of character number `offset` (from 0) of the text at `path`.

    YAML may join or fold lines, but keeps all characters other than white space, so those are counted.
    """
    start = document.mark(path)
    value = _at(document, path)
    source = document.sources.get(start.file, "")
    lines = source.splitlines(keepends=True)
    if not isinstance(value, str) or start.line > len(lines):
        return start
    at = sum(map(len, lines[: start.line - 1])) + start.col - 1
    if before_it := _BEFORE.match(source, at):
        at = before_it.end()
    quote = source[at : at + 1] if source[at : at + 1] in ("'", '"') else ""
    if block := _BLOCK.match(source, at):
        at = block.end()
    at += len(quote)
    for character in value[:offset]:
        if not character.isspace():
            at = _past_space(source, at, quote)
            at += _width(source, at, quote)
    if value[offset : offset + 1].strip():
        at = _past_space(source, at, quote)
    before = source[:at]
    return Position(start.file, before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1)


def _at(document: Document, path: Path_) -> object:
    value = document.data
    for part in path:
        value = value[part]
    return value


def _past_space(source: str, at: int, quote: str) -> int:
    while at < len(source) and (source[at].isspace() or (quote == '"' and re.match(r"\\[\n ntr]", source[at : at + 2]))):
        at += 2 if source[at] == "\\" else 1
    return at


def _width(source: str, at: int, quote: str) -> int:
    """Return how many characters of the file one character of the text takes."""
    if quote == "'" and source.startswith("''", at):
        return 2
    escape = _ESCAPE.match(source, at) if quote == '"' else None
    return len(escape[0]) if escape else 1
