"""A folder of official files against its card: what is there, what is wrong with it, all at once."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from registry.cards import Card, Files
from registry.formats import FormatError, check_file

JUNK = {".git", ".hg", ".svn", ".dvc", ".dvcignore", "__pycache__", ".DS_Store", ".ipynb_checkpoints", ".gitattributes", ".gitignore"}
"""What lies beside official files on many disks and is never one of them."""


@dataclass
class Inspection:
    """What a folder holds of a card's files."""

    files: dict[str, int] = field(default_factory=dict)
    """Files the layout names, as relative POSIX path -> bytes, sorted."""
    splits: dict[str, list[int]] = field(default_factory=dict)
    """Split -> records found in each of its files."""
    problems: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Files that the layout does not name; they are not taken."""

    @property
    def size(self) -> int:
        return sum(self.files.values())


def inspect(folder: Path, card: Card, progress: Callable[[str, int], None] = lambda name, size: None) -> Inspection:
    """Check a folder against a card's layout, counts and digests, reading every file once or twice and changing nothing.

    Args:
        folder: where the official files are.
        card: what they should be.
        progress: told each file's name and size once it is checked.
    """
    found = Inspection()
    names = _walk(folder, card, found)
    _layout(folder, card, names, found)
    rules = {name: next(rule for rule in card.layout if matches(rule.files, name)) for name in found.files}
    for name, rule in rules.items():
        _one(folder / name, name, rule, card, found)
        progress(name, found.files[name])
    return found


def matches(pattern: str, name: str) -> bool:
    """Whether a relative POSIX path fits a pattern with `*` (within a folder) and `**` (across folders)."""
    return _regex(pattern).fullmatch(name) is not None


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    text = ""
    for piece in re.split(r"(\*\*/|\*\*|\*|\?)", pattern):
        text += {"**/": "(?:[^/]+/)*", "**": ".+", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
    return re.compile(text, re.DOTALL)


def _walk(folder: Path, card: Card, found: Inspection) -> list[str]:
    """Relative paths of all files; links and oddities among those the card wants become problems."""
    names = []

    def refuse(error: OSError) -> None:
        found.problems.append(f"{error.filename}: cannot be read: {error.strerror}")

    for parent, folders, files in os.walk(folder, onerror=refuse):
        here = Path(parent)
        for name in [f for f in folders if (here / f).is_symlink()]:
            relative = (here / name).relative_to(folder).as_posix()
            found.problems.append(f"{relative}: a link to {(here / name).readlink()}; links are not taken, put the files themselves there")
        folders[:] = sorted(f for f in folders if f not in JUNK and not (here / f).is_symlink())
        for name in sorted(files):
            relative = (here / name).relative_to(folder).as_posix()
            if name in JUNK:
                continue
            if not any(matches(rule.files, relative) for rule in card.layout):
                found.left_out.append(relative)
            elif (here / name).is_symlink():
                found.problems.append(
                    f"{relative}: a link to {(here / name).readlink()}; links are not taken, copy the source with `cp -rL` first"
                )
                names.append(relative)
            elif "\n" in relative or "\\" in relative or not relative.isprintable():
                found.problems.append(f"{relative!r}: a file name with control characters or '\\'; rename it")
            else:
                names.append(relative)
                found.files[relative] = (here / name).lstat().st_size
    found.files = dict(sorted(found.files.items()))
    return names


def _layout(folder: Path, card: Card, names: Iterable[str], found: Inspection) -> None:
    names = list(names)
    for rule in card.layout:
        n = sum(1 for name in names if matches(rule.files, name))
        what = f" ({rule.about})" if rule.about else ""
        if rule.count is not None and n != rule.count:
            found.problems.append(f"{rule.files}{what}: expected {rule.count:,}, found {n:,}")
        elif n < rule.at_least:
            found.problems.append(f"{rule.files}{what}: expected at least {rule.at_least:,}, found {n:,}")
    if not names:
        hint = _elsewhere(folder, card)
        found.problems.append(
            f"{folder}: nothing of the layout of '{card.name}' is here" + (f"; it seems to lie in {hint}" if hint else "")
        )


def _elsewhere(folder: Path, card: Card) -> str:
    """A parent or a folder inside that does hold files of the layout, where someone pointed one level beside."""
    try:
        inside = sorted(p for p in folder.iterdir() if p.is_dir() and not p.is_symlink())[:200]
    except OSError:
        return ""
    for place in [*inside, folder.resolve().parent]:
        for rule in card.layout:
            if rule.at_least and "**" not in rule.files and any(place.glob(rule.files)):
                return str(place)
    return ""


def _one(path: Path, name: str, rule: Files, card: Card, found: Inspection) -> None:
    try:
        records = check_file(path, rule.format)
    except FormatError as error:
        found.problems.append(f"{name}: {error}")
        return
    if name in card.digests:
        with path.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        if digest != card.digests[name]:
            found.problems.append(f"{name}: SHA-256 {digest[:12]}… where the card has {card.digests[name][:12]}…; not the official file")
    for split, expected in card.splits.items():
        if expected.files is None or not matches(expected.files, name):
            continue
        found.splits.setdefault(split, []).append(records if records is not None else 0)
        if expected.records is not None and records != expected.records:
            got = "no list of records" if records is None else f"{records:,}"
            found.problems.append(f"{name}: expected {expected.records:,} records of '{split}', found {got}")
