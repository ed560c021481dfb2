"""BibTeX of the papers that plugins and published models are from: `references.bib`, by key.

A plugin names its papers by `CITES = ["key"]`. One from another package may bring its own: an item that begins with `@` is an entry
itself.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import yaml

from qualm.registry.published import bibtex

FILE = Path(__file__).with_name("references.bib")
ENTRIES = Path(__file__).with_name("cited_entries.yaml")
"""Keys of FILE for entries of registry/data/ that are published models under names of our own."""


class CitationError(Exception):
    """A citation that cannot be printed: which key, named where."""


def entries_of(text: str, by: str) -> dict[str, str]:
    """The BibTeX entries of a text by key, as they stand; the first of a key is kept.

    Raises:
        CitationError: what begins like an entry is none; `by` says whose text it is.
    """
    try:
        return bibtex.parse(text)
    except bibtex.BibtexError as error:
        raise CitationError(f"{by}: BibTeX: {error}") from None


@cache
def references(file: Path = FILE) -> dict[str, str]:
    """All entries of the file by key."""
    return entries_of(file.read_text(encoding="utf-8"), file.name)


@cache
def keys_of_entries(file: Path = ENTRIES) -> dict[str, list[str]]:
    """Entry -> keys of its papers."""
    keys: dict[str, list[str]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return keys


def cited(keys: Iterable[str], by: str) -> dict[str, str]:
    """The entries that a plugin's or model's `CITES` names, by key.

    Raises:
        CitationError: a key that stands nowhere, or text that is no entry.
    """
    entries: dict[str, str] = {}
    for key in keys:
        if key.lstrip().startswith("@"):
            own = entries_of(key, f"{by}: CITES")
            if not own:
                raise CitationError(f"{by}: CITES: expected BibTeX such as @misc{{key, title={{...}}}}, got {key.strip()[:60]!r}")
            entries |= own
        elif key in references():
            entries[key] = references()[key]
        else:
            raise CitationError(f"{by}: CITES names '{key}', which is not in {FILE.name}; add the entry there or write it out")
    return entries
