"""Entries of `registry/data/`: description, location of the bytes, verification.

An entry is a folder `registry/data/NAME` tracked by the DVC file `registry/data/NAME.dvc`, which git keeps and whose
`meta` names its card. This module writes nothing and does not import DVC.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from qualm.registry.entries.card import Card, CardError, card_names, load_card
from qualm.registry.entries.layout import Inspection, inspect
from qualm.registry.system.dvc_files import DvcStateError, cache_folder, has_default_remote, local_remote, read_dvc_file
from qualm.registry.system.dvc_objects import folder_md5, hash_files, hash_path, holds, listing
from qualm.registry.system.textfiles import warn

DATA = Path("registry/data")

Where = Literal["here", "cache", "remote", "missing", "not added", "generated", "broken"]


class EntryError(Exception):
    """Error of a missing or unreadable entry; the message names near matches or the remedy."""


@dataclass(frozen=True)
class Entry:
    """A dataset or model: its DVC record in `registry/data`, or only its card."""

    root: Path
    name: str
    card: str | None
    md5: str | None = None
    size: int | None = None
    nfiles: int | None = None
    origin: str | None = None
    """`URL@revision` of an import from git; then the bytes come from there and not from the remote."""
    skipped: bool = False
    """It was added by `--skip-bad` and bad files or other counts were let pass."""
    fault: str = ""
    """Problem of the entry's DVC file; such an entry can only be listed."""

    @property
    def path(self) -> Path:
        return self.root / DATA / self.name

    @property
    def version(self) -> str | None:
        return self.md5[:10] if self.md5 else None

    @cached_property
    def where(self) -> Where:
        """Return where its bytes are: here, cache, remote, missing, not added, generated, broken.

        A network remote is not asked: "remote" if one is the default.
        """
        if self.fault:
            return "broken"
        if self.md5 is None:
            return "generated" if self.sound_card is not None and not self.sound_card.layout else "not added"
        if self.path.exists():
            return "here"
        if holds(cache_folder(self.root), self.md5):
            return "cache"
        if self.origin:
            return "remote"
        remote = local_remote(self.root)
        is_there = has_default_remote(self.root) if remote is None else holds(remote, self.md5)
        return "remote" if is_there else "missing"

    @property
    def get(self) -> str:
        """Return the command that brings its files here; "" if none is needed or possible."""
        file = DATA / f"{self.name}.dvc"
        card = f" --card {self.card}" if self.card not in (None, self.name) else ""
        is_fetched = self.sound_card is not None and self.sound_card.fetch is not None
        return {
            "cache": f"dvc checkout {file}",
            "remote": f"dvc pull {file}",
            "missing": f"qualm data add {self.name} --from PATH{card}",
            "not added": f"qualm fetch --data {self.name}" if is_fetched else f"qualm data add {self.name} --from PATH",
        }.get(self.where, "")

    @property
    def get_advice(self) -> str:
        """Return how to bring its files here, for a message; "" if nothing is needed or possible."""
        if not (command := self.get):
            return ""
        return f"`{command}`, or `dvc push` where its files still are" if self.where == "missing" else f"`{command}`"

    @cached_property
    def details(self) -> Card | None:
        """Return its card, None if it has none; CardError if the card is invalid."""
        return load_card(self.card) if self.card in card_names() else None

    @property
    def sound_card(self) -> Card | None:
        """Return its card; None if it has none, or if its card is invalid, with a warning."""
        try:
            return self.details
        except CardError as error:
            warn(str(error))
            return None


def entries(root: Path) -> list[Entry]:
    """Return all tracked entries by name, then an untracked one per unused card.

    An entry with a broken DVC file has a `fault`.
    """
    tracked = [_entry(root, file) for file in sorted((root / DATA).glob("*.dvc"))]
    cards = {e.card for e in tracked} | {e.name for e in tracked}
    return tracked + [Entry(root, name, name) for name in card_names() if name not in cards]


def find(root: Path, name: str) -> Entry:
    """Return the entry, or untracked card, of this name; EntryError if none or broken."""
    import difflib

    by_name = {e.name: e for e in entries(root)}
    by_name = {c: Entry(root, c, c) for c in card_names()} | by_name
    if name not in by_name:
        near = difflib.get_close_matches(name, by_name, 1, 0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(sorted(by_name)) or 'none'}"
        raise EntryError(f"no entry or card named '{name}'; {hint}")
    if by_name[name].fault:
        raise EntryError(by_name[name].fault)
    return by_name[name]


def _entry(root: Path, file: Path) -> Entry:
    try:
        return _read(root, file)
    except EntryError as error:
        warn(str(error))
        return Entry(root, file.stem, None, fault=str(error))


def _read(root: Path, file: Path) -> Entry:
    try:
        raw = read_dvc_file(file)
        out = raw["outs"][0]
        meta = (raw.get("meta") or {}).get("qualm") or {}
        origin = None
        for dep in raw.get("deps") or []:
            if "repo" in dep:
                origin = f"{dep['repo']['url']}@{dep['repo'].get('rev') or dep['repo'].get('rev_lock')}"
        card, skipped = meta.get("card") or file.stem, bool(meta.get("skip_bad"))
        return Entry(root, file.stem, card, out["md5"], out.get("size"), out.get("nfiles"), origin, skipped)
    except DvcStateError as error:
        raise EntryError(str(error)) from error
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise EntryError(f"{file}: not a DVC file with one output ({error}); restore it with `git checkout {file}`") from error


@dataclass(frozen=True)
class Verdict:
    """Result of comparing files with their record: damaged, missing, extra, problems."""

    checked: int
    damaged: tuple[str, ...]
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    problems: tuple[str, ...]
    """Everything else: not here, no listing to compare with, deviations from the card."""
    absent: int = 0
    """Recorded results that are not here, and so not compared; an entry's missing files are `missing`."""

    @property
    def good(self) -> bool:
        return not (self.damaged or self.missing or self.extra or self.problems)


def verify(entry: Entry) -> Verdict:
    """Hash an entry's files and return how they differ from DVC's record and the card."""
    if entry.fault:
        return Verdict(0, (), (), (), (entry.fault,))
    if entry.md5 is None:
        problem = f"not added yet; {advice}" if (advice := entry.get_advice) else "nothing to verify, it is generated"
        return Verdict(0, (), (), (), (f"{entry.name}: {problem}",))
    if not entry.path.exists():
        return Verdict(0, (), (), (), (f"{entry.path}: not on this disk; {entry.get_advice}",))
    if not entry.path.is_dir():
        damaged = () if hash_path(entry.root, entry.path) == entry.md5 else (entry.name,)
        return Verdict(1, damaged, (), (), ())
    hashes = hash_files(entry.root, entry.path)
    expected, problems = _expected(entry, hashes), list[str]()
    if expected is None:
        problems.append(f"{entry.name}: the content is not the recorded version, and the list of its files is in neither cache nor remote")
        expected = hashes
    problems += _against_card(entry).problems
    return Verdict(
        len(hashes),
        tuple(n for n in sorted(expected) if n in hashes and hashes[n] != expected[n]),
        tuple(n for n in sorted(expected) if n not in hashes),
        tuple(n for n in sorted(hashes) if n not in expected),
        tuple(problems),
    )


def _expected(entry: Entry, hashes: dict[str, str]) -> dict[str, str] | None:
    """Return {file: recorded MD5}: `hashes` if they match, else a store's list; None without."""
    if folder_md5(hashes) == entry.md5:
        return hashes
    for store in (cache_folder(entry.root), local_remote(entry.root)):
        if store is not None and entry.md5 is not None and (files := listing(store, entry.md5)) is not None:
            return files
    return None


def _against_card(entry: Entry) -> Inspection:
    try:
        card = entry.details
    except CardError as error:
        return Inspection(problems=[str(error)])
    return Inspection() if card is None or not card.layout else inspect(entry.path, card, skip_bad=entry.skipped, linked=True)
