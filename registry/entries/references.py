"""BibTeX of the papers behind plugins and published models: `references.bib`, by key.

A plugin names its papers by `CITES = ["key"]`. A plugin of another package may bring its own: an item that begins with `@` is an entry.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

FILE = Path(__file__).with_name("references.bib")
ENTRIES = Path(__file__).with_name("cited_entries.yaml")
"""File with the keys of references for published models that are entries of registry/data/."""


class CitationError(Exception):
    """Error of a citation that cannot be printed: key and place."""


def parse_bibtex(text: str, by: str) -> dict[str, str]:
    """Return {key: BibTeX entry} of a text; CitationError naming `by` if malformed."""
    try:
        return parse(text)
    except BibtexError as error:
        raise CitationError(f"{by}: BibTeX: {error}") from None


@cache
def references(file: Path = FILE) -> dict[str, str]:
    return parse_bibtex(file.read_text(encoding="utf-8"), file.name)


@cache
def keys_of_entries() -> dict[str, list[str]]:
    """Return {entry of registry/data: BibTeX keys of its papers}, cached."""
    keys: dict[str, list[str]] = yaml.safe_load(ENTRIES.read_text(encoding="utf-8"))
    return keys


def cited_entries(keys: Iterable[str], by: str) -> dict[str, str]:
    """Return {key: BibTeX entry} for keys or BibTeX texts of `CITES`; else CitationError."""
    entries: dict[str, str] = {}
    for key in keys:
        if key.lstrip().startswith("@"):
            own_entries = parse_bibtex(key, f"{by}: CITES")
            if not own_entries:
                raise CitationError(f"{by}: CITES: expected BibTeX such as @misc{{key, title={{...}}}}, got {key.strip()[:60]!r}")
            entries |= own_entries
        elif key in references():
            entries[key] = references()[key]
        else:
            raise CitationError(f"{by}: CITES names '{key}', which is not in {FILE.name}; add the entry there or write it out")
    return entries


_START = re.compile(r"@\s*([A-Za-z]\w*)\s*([{(])|^[ \t]*%[^\n]*", re.MULTILINE)
_KEY = re.compile(r"\s*([^\s,{}()\"'=#%\\]+)\s*(?=[,})])")
_DEFINITION = re.compile(r"\s*([^\s\"#%'(),={}]+)\s*=\s*(.*\S)\s*", re.DOTALL)
_WORD = re.compile(r"([=#]\s*)([A-Za-z][\w:.+/-]*)")
_CLOSES = {"{": "}", "(": ")"}


class BibtexError(Exception):
    """Error of malformed BibTeX: the line, and what was expected."""


@dataclass(frozen=True)
class _Block:
    """Positions of one block `@kind{body}` in a BibTeX text."""

    kind: str
    start: int
    body: int
    end: int


def parse(text: str) -> dict[str, str]:
    """Return {key: BibTeX entry}, the first of each key, @string expanded; else BibtexError."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    entries: dict[str, str] = {}
    abbreviations: dict[str, str] = {}
    for block in _blocks(text):
        if block.kind in ("comment", "preamble"):
            continue
        if block.kind == "string":
            definition = _DEFINITION.fullmatch(text[block.body : block.end - 1])
            if definition is None:
                raise BibtexError(f"line {_line(text, block.start)}: expected @string{{name = {{text}}}}")
            abbreviations[definition[1].lower()] = _expand(f"={definition[2]}", abbreviations)[1:]
            continue
        key = _KEY.match(text, block.body, block.end)
        if key is None:
            raise BibtexError(f"line {_line(text, block.start)}: expected a key and a comma after @{block.kind}{text[block.body - 1]}")
        entries.setdefault(key[1], _expand(text[block.start : block.end], abbreviations))
    return entries


def _blocks(text: str) -> Iterator[_Block]:
    place = 0
    while (match := _START.search(text, place)) is not None:
        place = match.end()
        if match[1] is None:  # a line of comment between entries
            continue
        end = _end(text, match.end(), match[2])
        if end is None:
            raise BibtexError(
                f"line {_line(text, match.start())}: @{match[1]}{match[2]} does not end; expected a '{_CLOSES[match[2]]}' "
                "for each one opened, quotes and braces within it in pairs"
            )
        yield _Block(match[1].lower(), match.start(), match.end(), end)
        place = end


def _end(text: str, body: int, opening: str) -> int | None:
    """Return the position after the bracket that closes a block begun at `body`; None if none.

    Braces count everywhere, parentheses only outside braces and quotes.
    """
    for place, depth, quoted in _depths(text, body):
        closes = text[place] == _CLOSES[opening] and (depth == -1 if opening == "{" else depth == 0 and not quoted)
        if closes or depth < 0:
            return place + 1 if closes else None
    return None


def _depths(text: str, start: int) -> Iterator[tuple[int, int, bool]]:
    """Yield (index, brace depth, whether in quotes) at each brace, parenthesis and quote.

    Depth and quotes are those after the character. Quotes inside braces do not count.
    """
    depth, quoted = 0, False
    for match in re.compile(r'[{}()"]').finditer(text, start):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        quoted ^= match[0] == '"' and depth == 0
        yield match.start(), depth, quoted


def _expand(entry: str, abbreviations: Mapping[str, str]) -> str:
    if not abbreviations:
        return entry
    inside = entry.find("=")
    bounds = [(place + 1, depth == 0 and not quoted) for place, depth, quoted in _depths(entry, inside)] if inside >= 0 else []
    starts = [max(inside, 0), *(place for place, _ in bounds)]
    bare = [inside >= 0, *(outside for _, outside in bounds)]
    parts = [entry[: starts[0]]]
    for start, stop, outside in zip(starts, [*starts[1:], len(entry)], bare, strict=True):
        piece = entry[start:stop]
        parts.append(_WORD.sub(lambda m: m[1] + abbreviations.get(m[2].lower(), m[2]), piece) if outside else piece)
    return "".join(parts)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
