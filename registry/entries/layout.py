"""Comparison of a folder of official files with its card: every problem at once, and new counts where your own data grew."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import yaml

from qualm.registry.entries.card import Card, Files
from qualm.registry.formats.check import BadLinesError, FormatError, check_file
from qualm.registry.machine import usable_cores
from qualm.registry.system import textfiles
from qualm.registry.system.dvc_objects import is_cached
from qualm.registry.system.file_names import missing_shards
from qualm.registry.text import quoted

JUNK = {".git", ".hg", ".svn", ".dvc", ".dvcignore", "__pycache__", ".DS_Store", ".ipynb_checkpoints", ".gitattributes", ".gitignore"}
"""Files found beside official files on many disks that are never part of them."""


@dataclass
class Inspection:
    """Result of `inspect`: the card's files here, records per split, problems."""

    files: dict[str, int] = field(default_factory=dict)
    """Files the layout names, as relative POSIX path -> bytes, sorted."""
    splits: dict[str, list[int]] = field(default_factory=dict)
    """Split -> records found in each of its files."""
    problems: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Problems skipped on request: files left out, bad lines, counts that differ."""
    excusable: int = 0
    """Number of problems that could be skipped on request."""
    left_out: list[str] = field(default_factory=list)
    """Files that the layout does not name; they are not taken."""
    notes: list[str] = field(default_factory=list)
    """Notes for people from files that the adapter derived."""

    @property
    def size(self) -> int:
        return sum(self.files.values())


def inspect(
    folder: Path,
    card: Card,
    progress: Callable[[str, int, int], None] = lambda name, size, total: None,
    skip_bad: bool = False,
    linked: bool = False,
) -> Inspection:
    """Compare a folder with a card by reading its files; return all that was found.

    Args:
        progress: told each file's name and size once it is checked, and the bytes there are to check.
        skip_bad: leave out bad files of a pattern, keep files with bad lines, and accept other counts than the card's, all of it listed. A
            file that the layout names without a pattern must be valid, and so must one file of each required pattern.
        linked: it is an entry, whose files may be links into DVC's cache.
    """
    inspection = Inspection()
    lenient = inspection.skipped if skip_bad else list[str]()
    names = _walk(folder, card, inspection, lenient, linked)
    _layout(folder, card, names, inspection, lenient)
    rules = {name: next(rule for rule in card.layout if matches(rule.files, name)) for name in inspection.files}
    total = inspection.size
    for name, result in _checks(folder, rules, linked):
        progress(name, inspection.files[name], total)
        if isinstance(result, FormatError) and not (skip_bad and isinstance(result, BadLinesError)):
            apart = "*" in rules[name].files
            (lenient if apart or isinstance(result, BadLinesError) else inspection.problems).append(f"{name}: {result}")
            if skip_bad and apart:
                del inspection.files[name]
            continue
        if isinstance(result, BadLinesError):
            lenient.append(f"{name}: {result}")
            result = result.lines - result.bad
        _compare_records(folder / name, name, result, card, inspection, lenient)
    if skip_bad:
        inspection.problems += _invalid_patterns(rules, inspection)
    else:
        inspection.problems[:0] = lenient
        inspection.excusable = len(lenient) if inspection.files else 0
    return inspection


def _invalid_patterns(rules: Mapping[str, Files], inspection: Inspection) -> Iterator[str]:
    """Yield a problem per required pattern of which every file is invalid."""
    for pattern in dict.fromkeys(rule.files for rule in rules.values() if rule.at_least):
        of_pattern = [name for name, rule in rules.items() if rule.files == pattern]
        if inspection.files.keys().isdisjoint(of_pattern):
            first = next(line for line in inspection.skipped if line.startswith(f"{of_pattern[0]}: "))
            yield f"{pattern}: no file is whole, and at least one must be ({len(of_pattern):,} bad); the first: {first}"


def _checks(folder: Path, rules: Mapping[str, Files], linked: bool) -> Iterator[tuple[str, int | FormatError | None]]:
    """Yield (file, its record count, None or FormatError) pairs in the order of `rules`."""

    def check(name: str) -> tuple[str, int | FormatError | None]:
        try:
            return name, check_file(folder / name, rules[name].format, linked)
        except FormatError as error:
            return name, error

    return map_in_order(check, rules)


def is_named(card: Card, name: str) -> bool:
    """Return whether a pattern of the card's layout fits this relative path."""
    return any(matches(rule.files, name) for rule in card.layout)


def matches(pattern: str, name: str) -> bool:
    """Return whether a path fits a pattern: `*` within a folder, `**` across folders."""
    return _regex(pattern).fullmatch(name) is not None


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    text = ""
    for piece in re.split(r"(\*\*/|\*\*|\*|\?)", pattern):
        text += {"**/": "(?:[^/]+/)*", "**": ".+", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
    return re.compile(text, re.DOTALL)


def _walk(folder: Path, card: Card, inspection: Inspection, lenient: list[str], linked: bool) -> list[str]:
    """Return the paths of the card's files; note files and faults in `inspection`, `lenient`."""
    names = []
    for relative, entry in _scan(str(folder), "", inspection.problems):
        printable, link = quoted(relative), ""
        if entry.is_symlink() and not (linked and is_cached(folder, Path(entry.path).resolve())):
            link = f"{printable}: a link to {quoted(os.fspath(Path(entry.path).readlink()))}; links are not taken"
        if link and Path(entry.path).is_dir():
            lenient.append(f"{link}, put the files themselves there")
        elif not is_named(card, relative):
            inspection.left_out.append(printable)
        elif not link and not entry.is_file():
            lenient.append(f"{printable}: no file but a pipe, socket or device; they are not taken")
        elif link:
            lenient.append(f"{link}, copy the source with `cp -rL` first")
            names.append(relative)
        elif "\\" in relative or not relative.isprintable():
            lenient.append(f"{relative!r}: a file name with control characters or '\\', or not in UTF-8; rename it")
        else:
            names.append(relative)
            inspection.files[relative] = entry.stat().st_size
    inspection.files = dict(sorted(inspection.files.items()))
    return names


def _scan(folder: str, prefix: str, problems: list[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield (relative path, entry) of all files below a folder; add errors to `problems`.

    Entries are sorted by name, with subfolders after files. Files that systems leave behind (`JUNK`) are skipped; links count as
    files. `prefix` begins the relative paths.
    """
    try:
        with os.scandir(folder) as entries:
            here = sorted((e for e in entries if e.name not in JUNK), key=lambda e: e.name)
    except OSError as error:
        problems.append(f"{error.filename}: cannot be read: {error.strerror}")
        return
    folders = [e for e in here if e.is_dir(follow_symlinks=False)]
    yield from ((f"{prefix}{e.name}", e) for e in here if not e.is_dir(follow_symlinks=False))
    for entry in folders:
        yield from _scan(entry.path, f"{prefix}{entry.name}/", problems)


def _layout(folder: Path, card: Card, names: list[str], inspection: Inspection, lenient: list[str]) -> None:
    for rule in card.layout:
        n = sum(1 for name in names if matches(rule.files, name))
        what = f" ({rule.about})" if rule.about else ""
        to = lenient if n or "*" in rule.files else inspection.problems
        if rule.count is not None and n != rule.count:
            to.append(f"{rule.files}{what}: expected {rule.count:,}, found {n:,}")
        elif n < rule.at_least:
            to.append(f"{rule.files}{what}: expected at least {rule.at_least:,}, found {n:,}")
    shards = [name for name in names if any("*" in rule.files and matches(rule.files, name) for rule in card.layout)]
    lenient += [f"{name}: missing, although other shards of its set are here; fetch it" for name in missing_shards(shards)]
    if not names:
        hint = f"; it seems to lie in {place}" if (place := _nearby_folder(folder, card)) else ""
        inspection.problems.append(f"{folder}: nothing of the layout of '{card.name}' is here{hint}")


def _nearby_folder(folder: Path, card: Card) -> str:
    """Return a subfolder, or the parent, with a file that the card requires; "" if none."""
    try:
        inside = sorted(p for p in folder.iterdir() if p.is_dir() and not p.is_symlink())[:200]
    except OSError:
        return ""
    for place in [*inside, folder.resolve().parent]:
        for rule in card.layout:
            if rule.at_least and "**" not in rule.files and any(place.glob(rule.files)):
                return str(place)
    return ""


def _compare_records(path: Path, name: str, records: int | None, card: Card, inspection: Inspection, lenient: list[str]) -> None:
    """Note counts and a wrong digest in `inspection`, a wrong record count in `lenient`."""
    if name in card.digests:
        with path.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        if digest != card.digests[name]:
            known = card.digests[name]
            inspection.problems.append(f"{name}: SHA-256 {digest[:12]}… where the card has {known[:12]}…; not the official file")
    for split, expected in card.splits.items():
        if expected.files is None or not matches(expected.files, name):
            continue
        inspection.splits.setdefault(split, []).append(records if records is not None else 0)
        if expected.records is not None and records != expected.records:
            got = "no list of records" if records is None else f"{records:,}"
            lenient.append(f"{name}: expected {expected.records:,} records of '{split}', found {got}")


T = TypeVar("T")
R = TypeVar("R")

MAX_QUEUED = 1024
"""Items handed to the threads at once, so that a million of them take no more memory than these."""


def map_in_order(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield function(item) in the items' order, computed by threads."""
    waiting = iter(items)
    with ThreadPoolExecutor(usable_cores(), thread_name_prefix="files") as pool:
        while some := list(islice(waiting, MAX_QUEUED)):
            yield from pool.map(function, some)


MARK = "# Written by `qualm data new`"
"""The first words of a card of one's own; the counts of other cards are those of a release."""


@dataclass(frozen=True)
class Recount:
    """A count on a card (files, or records of a split), before and now."""

    what: str
    """The pattern of `layout`, or the name of a split."""
    before: int
    now: int
    split: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {self.before:,} {'records' if self.split else 'files'} before, {self.now:,} now"


def recounts(folder: Path, card: Card, path: Path) -> list[Recount]:
    """Return the changed counts of a user's card; [] if anything else differs too."""
    if not textfiles.is_file(path) or not textfiles.read_text(path).startswith(MARK):
        return []
    layout = tuple(rule.model_copy(update={"count": None}) for rule in card.layout)
    splits = {name: split.model_copy(update={"records": None}) for name, split in card.splits.items()}
    there = inspect(folder, card.model_copy(update={"layout": layout, "splits": splits}))
    if there.problems:
        return []
    files = ((rule, sum(matches(rule.files, name) for name in there.files)) for rule in card.layout)
    changes = [Recount(rule.files, rule.count, n) for rule, n in files if rule.count not in (None, n)]
    for name, split in card.splits.items():
        records = set(there.splits.get(name, []))
        if split.records is None or records <= {split.records}:
            continue
        if len(records) > 1:  # no count fits each file of the split
            return []
        changes.append(Recount(name, split.records, records.pop(), split=True))
    return changes


def rewrite_counts(text: str, changes: list[Recount]) -> str | None:
    """Return a card's text with the new counts; None if they cannot be replaced."""
    expected = _counted(yaml.safe_load(text), changes)
    for change in changes:
        key, name = ("records", change.what) if change.split else ("count", change.what)
        opening = rf"^  {_yaml_pattern(name)}: \{{" if change.split else rf"^  - \{{files: {_yaml_pattern(name)},"
        text = re.sub(rf"({opening}.*\b{key}: ){change.before}\b", rf"\g<1>{change.now}", text, count=1, flags=re.MULTILINE)
    return text if yaml.safe_load(text) == expected else None


def _yaml_pattern(name: str) -> str:
    """Return a regular expression for `name` in YAML, quoted or bare."""
    return f"(?:{re.escape(json.dumps(name, ensure_ascii=False))}|{re.escape(name)})"


def _counted(card: dict[str, Any], changes: list[Recount]) -> dict[str, Any]:
    for change in changes:
        if change.split:
            card["splits"][change.what]["records"] = change.now
        else:
            next(rule for rule in card["layout"] if rule["files"] == change.what)["count"] = change.now
    return card
