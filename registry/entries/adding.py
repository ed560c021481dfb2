"""`qualm data add`: adds official files to the registry, completely or not at all.

Files are checked where they lie, copied into a staging folder under `.qualm`, hashed and cached there by DVC in a
repository of its own, and only then renamed into place. Killed at any moment, it leaves the entry as it was or as it
will be; what it left in staging goes at the next run.
"""

import hashlib
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Literal

import yaml

from qualm.registry.adapters import AdapterError, DerivedFiles
from qualm.registry.entries import card as cards
from qualm.registry.entries.card import SLUG, SLUG_RULE, Card
from qualm.registry.entries.entries import DATA, Entry, find
from qualm.registry.entries.layout import Inspection, Recount, inspect, is_named, map_in_order, recounts, rewrite_counts
from qualm.registry.formats.archives import ArchiveError, is_archive, unpack
from qualm.registry.plugins.imports import PROJECT
from qualm.registry.plugins.registry import get
from qualm.registry.system import atomic
from qualm.registry.system.disk_errors import DISK_FULL, explain_error
from qualm.registry.system.dvc_files import cache_folder, read_config, read_dvc_file
from qualm.registry.system.dvc_objects import folder_md5, hash_path, holds, open_repo
from qualm.registry.system.locks import ProcessLock
from qualm.registry.text import quoted

_GIT = re.compile(
    r"(?:git\+)?(?P<url>(?:https?|ssh|git|file)://(?:[^@/\s]+@)?[^@\s]+|[\w.-]+@[\w.-]+:[^@\s]+)(?:@(?P<rev>[A-Za-z0-9][\w./-]*))?"
)

Progress = Callable[[str, str, int, int], None]
"""Told (what is done, file, its bytes, bytes there are to do or 0 where that is not known) after each file."""


class AddError(Exception):
    """Error that nothing was added; `problems` has every reason at once."""

    def __init__(self, *problems: str, excusable: int = 0, recounts: Sequence[Recount] = ()) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        self.recounts = recounts
        """Changed counts, if your own data grew or shrank and nothing else is wrong."""
        self.excusable = excusable
        """Number of problems that `--skip-bad` would skip."""


@dataclass(frozen=True)
class Added:
    """Result of `add`: the entry, whether added, replaced or unchanged, and its inspection."""

    entry: Entry
    outcome: Literal["added", "replaced", "unchanged"]
    previous: str | None
    """Digest of the version that was there before."""
    inspection: Inspection


def git_source(source: str) -> tuple[str, str | None] | None:
    """Return (URL, revision or None) of a git source; None for a path."""
    match = _GIT.fullmatch(source)
    return (match["url"], match["rev"]) if match else None


def add(
    root: Path,
    name: str,
    source: str,
    card: Card,
    progress: Progress = lambda what, file, size, total: None,
    skip_bad: bool = False,
    new_version: bool = False,
) -> Added:
    """Check files against a card and add them as entry `registry/data/NAME`; else AddError.

    Args:
        source: a folder, an archive, or URL@revision of a git repository.
        skip_bad: leave out bad files of a pattern, keep files with bad lines, and accept other counts than the card's.
        new_version: where data of one's own have grown, write the new counts into their card.

    Raises:
        AddError: anything at all is wrong; nothing has changed then.
    """
    if not SLUG.fullmatch(name):
        raise AddError(f"'{name}' is not a valid name for an entry: {SLUG_RULE}")
    if not (root / ".dvc").is_dir():
        raise AddError(f"{root}: no DVC repository here; run `dvc init` or go to the project's root")
    if not card.layout:
        raise AddError(f"'{card.name}' is generated, it has no official files; name its card in a spec, there is nothing to add")
    root = root.resolve()  # the staging repository's cache is this one, wherever that is from there
    repository = git_source(source)
    if repository and skip_bad:
        raise AddError(
            "--skip-bad: an import from git is the repository at that revision, whole; copy what is good to a folder and add that"
        )
    busy = AddError("another `qualm data add` is at work in this checkout; let it end and try again")
    with ProcessLock(root / ".qualm" / "locks" / "data.lock").hold(busy), _staging(root, name) as stage:
        target = root / DATA / name
        before = find(root, name) if (root / DATA / f"{name}.dvc").exists() else None
        if before is None and target.exists():
            raise AddError(f"{target} exists and DVC does not track it; move it away, or `dvc add` it yourself")
        if repository:
            return _publish(root, stage, name, before, _import(stage, name, *repository, card, progress), card)
        origin = _origin(root, source)
        folder, refused, others = _unpacked(stage, origin, card, progress, skip_bad)

        def check(card: Card) -> Inspection:
            inspection = inspect(folder, card, lambda file, size, total: progress("checking", file, size, total), skip_bad)
            inspection.skipped[:0] = refused
            inspection.left_out += others
            return inspection

        inspection, rewritten = check(card), dict[Path, str]()
        if inspection.problems:
            path = cards.folders()[-1] / f"{card.name}.yaml"
            changes = recounts(folder, card, path)
            if not (new_version and changes):
                raise AddError(*inspection.problems, excusable=inspection.excusable, recounts=changes)
            rewritten[path] = _recounted(path, changes)
            card = Card.model_validate(yaml.safe_load(rewritten[path]))
            inspection = check(card)
            if inspection.problems:
                raise AddError(*inspection.problems, excusable=inspection.excusable)
        sources = {file: folder / file for file in inspection.files} | _derived(folder, stage / ".derived", card, inspection, progress)
        if (
            before is not None
            and _is_recorded(root, before, card, inspection)
            and folder_md5(_hashes(sources, inspection, progress)) == before.md5
        ):
            unchanged = _restore_recorded(root, before, inspection)
            _write_cards(rewritten)
            return unchanged
        _copy(stage, name, sources, inspection, progress)
        return _publish(root, stage, name, before, inspection, card, rewritten)


def _recounted(path: Path, changes: list[Recount]) -> str:
    text = rewrite_counts(path.read_text(encoding="utf-8"), changes)
    if text is None:
        raise AddError(f"{path}: its counts could not be rewritten; do it by hand: {'; '.join(map(str, changes))}")
    return text


def _write_cards(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        atomic.write_text(path, text)
    cards.read_card.cache_clear()


def dvc(folder: Path, *arguments: str) -> None:
    """Run a DVC command in `folder`; AddError with its messages if it fails."""
    environment = {**os.environ, "DVC_NO_ANALYTICS": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "dvc", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        messages = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        raise AddError(f"dvc {' '.join(arguments)}: {'; '.join(messages) or done.stderr.strip() or 'failed'}")


@contextmanager
def _staging(root: Path, name: str) -> Iterator[Path]:
    """Yield an empty folder in a temporary DVC repository with this cache; delete it after."""
    stages = root / ".qualm" / "staging"
    shutil.rmtree(stages, ignore_errors=True)  # what a killed run left: nobody else is at work now
    stage = stages / name
    types = ", ".join(read_config(root)["cache"].get("type", []))
    settings = f"[core]\n    no_scm = true\n    analytics = false\n[cache]\n    dir = {cache_folder(root)}\n"
    try:
        atomic.write_text(stage / ".dvc" / "config", settings + (f"    type = {types}\n" if types else ""))
        if (root / ".dvcignore").is_file():  # so that what it hides is noticed now, not by the next `dvc status`
            atomic.write_bytes(stage / ".dvcignore", (root / ".dvcignore").read_bytes())
        yield stage
    finally:
        shutil.rmtree(stages, ignore_errors=True)


def _origin(root: Path, source: str) -> Path:
    origin = Path(source).expanduser()
    if not origin.is_dir() and not (origin.is_file() and is_archive(origin)):
        what = "is a file; unpack it and give the folder" if origin.exists() else "does not exist"
        raise AddError(f"{source}: {what}; --from takes a folder, a zip or tar archive, or URL@revision of a git repository")
    origin = origin.resolve()
    if origin.is_relative_to((root / DATA).resolve()):
        raise AddError(f"{source}: lies in the registry already; --from takes the original files")
    return origin


def _unpacked(stage: Path, origin: Path, card: Card, progress: Progress, skip_bad: bool) -> tuple[Path, list[str], list[str]]:
    """Unpack if an archive; return (folder, refused members' problems, names left out).

    Only members that the card names are unpacked, so an archive of something else costs no more than reading its names.

    Args:
        skip_bad: leave refused members out instead of raising AddError.
    """
    if origin.is_dir():
        return origin, [], []
    folder, refused = stage / ".unpacked", list[str]()
    folder.mkdir()

    def takes(name: str) -> bool:
        return is_named(card, name) or is_named(card, name.partition("/")[2])

    try:
        others = unpack(
            origin, folder, lambda file, size: progress("unpacking", file, size, 0), refused.append if skip_bad else None, takes
        )
    except ArchiveError as error:
        raise AddError(f"{origin}: {error}") from error
    inside = list(folder.iterdir())
    if not inside:
        raise AddError(*refused, f"{origin}: nothing of the layout of '{card.name}' is in it{_describe_contents(others, card)}")
    is_wrapped = len(inside) == 1 and inside[0].is_dir() and not any(True for rule in card.layout for _ in folder.glob(rule.files))
    top, prefix = (inside[0], f"{inside[0].name}/") if is_wrapped else (folder, "")
    return top, [f"{origin.name}: {problem}" for problem in refused], sorted(name.removeprefix(prefix) for name in others)


def _describe_contents(members: list[str], card: Card) -> str:
    """Return a message's end: an archive is empty, has the files in a folder, or has others."""
    if not members:
        return "; it is empty"
    for name in members[:1000]:
        for parent in list(PurePosixPath(name).parents)[:-1]:
            if is_named(card, PurePosixPath(name).relative_to(parent).as_posix()):
                return f"; it seems to lie in {quoted(str(parent))} there: unpack it and give that folder"
    expected = ", ".join([rule.files for rule in card.layout[:3]] + ["..."] * (len(card.layout) > 3))
    return f": expected {expected}, it has {len(members):,} other files, {quoted(members[0])} the first"


def _is_recorded(root: Path, before: Entry, card: Card, inspection: Inspection) -> bool:
    """Return whether `before` is cached, not imported, and has this card, size, file count.

    Both must have skipped bad files, or neither.
    """
    same = (before.card, before.origin, before.skipped) == (card.name, None, bool(inspection.skipped))
    sizes = (before.size, before.nfiles) == (inspection.size, len(inspection.files))
    return same and sizes and before.md5 is not None and holds(cache_folder(root), before.md5)


def _derived(folder: Path, place: Path, card: Card, inspection: Inspection, progress: Progress) -> dict[str, Path]:
    """Write the adapter's derived files to `place`, note them in `inspection`; return {file: path}, maybe {}."""
    derive = derived_files(card)
    if derive is None:
        return {}
    try:
        files, inspection.notes = derive(folder, list(inspection.files), lambda file: progress("matching", file, 0, 0))
    except AdapterError as error:
        raise AddError(str(error)) from error
    for file, text in files.items():
        atomic.write_text(place / file, text)
    inspection.files = dict(sorted({**inspection.files, **{file: (place / file).stat().st_size for file in files}}.items()))
    return {file: place / file for file in files}


def derived_files(card: Card) -> DerivedFiles | None:
    """Return function `derived_files` of the card's adapter module; None if it has none.

    None for an adapter of the project too, since `qualm data add` runs no code of the project. See `qualm.registry.adapters.DerivedFiles`.
    """
    if card.adapter is None or (module := get("datasets", card.adapter).module).startswith(f"{PROJECT}."):
        return None
    return getattr(importlib.import_module(module), "derived_files", None)


def _hashes(sources: Mapping[str, Path], inspection: Inspection, progress: Progress, target: Path | None = None) -> dict[str, str]:
    """Return {file: MD5} of the inspected files, and copy them to `target` unless None; else AddError."""
    hashes = {}
    for file, md5 in map_in_order(lambda file: (file, _stream(sources[file], target and target / file)), inspection.files):
        hashes[file] = md5
        if target is not None and (target / file).stat().st_size != inspection.files[file]:
            raise AddError(f"{sources[file]}: changed while it was being copied; try again when nothing writes there")
        progress("copying" if target else "hashing", file, inspection.files[file], inspection.size)
    return hashes


def _copy(stage: Path, name: str, sources: Mapping[str, Path], inspection: Inspection, progress: Progress) -> None:
    """Copy the inspected files to `stage` and `dvc add` them; AddError if DVC hashes other files."""
    for parent in {Path(file).parent for file in inspection.files}:
        (stage / name / parent).mkdir(parents=True, exist_ok=True)
    hashes = _hashes(sources, inspection, progress, stage / name)
    progress("tracking", name, 0, 0)
    dvc(stage, "add", name)
    digest = read_dvc_file(stage / f"{name}.dvc")["outs"][0]["md5"]
    if digest != folder_md5(hashes):
        raise AddError(f"{name}: DVC hashed {digest}, the files copied are {folder_md5(hashes)}; does .dvcignore hide some of them?")


def _stream(source: Path, target: Path | None) -> str:
    """Copy a file to `target`, unless None, and return its MD5; else AddError."""
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with os.fdopen(os.open(source, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as reading:
            writing = target.open("xb") if target is not None else None
            try:
                while chunk := reading.read(1 << 20):
                    digest.update(chunk)
                    if writing is not None:
                        writing.write(chunk)
            finally:
                if writing is not None:
                    writing.close()
    except OSError as error:
        place = target if target is not None and error.errno in DISK_FULL else source
        raise AddError(f"{explain_error(error, str(place))}; nothing was added") from error
    return digest.hexdigest()


def _import(stage: Path, name: str, url: str, rev: str | None, card: Card, progress: Progress) -> Inspection:
    if rev is None:
        raise AddError(f"{url}: which revision? Give a tag or commit, `--from {url}@REVISION`, so that everyone gets the same files")
    progress("importing", url, 0, 0)
    dvc(stage, "import", "--rev", rev, "--out", name, "--", url, ".")
    inspection = inspect(stage / name, card, lambda file, size, total: progress("checking", file, size, total))
    links = [p.relative_to(stage / name).as_posix() for p in (stage / name).rglob("*") if p.is_symlink()]
    problems = [*inspection.problems, *(f"{link}: a link; repositories with links are not taken" for link in links)]
    if problems:
        raise AddError(*dict.fromkeys(problems))
    return inspection


def _describe(file: Path, card: Card, skipped: bool) -> None:
    """Write card name and title into a `.dvc` file, the rest unchanged."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.default_flow_style = False
    content = yaml.load(file)
    content["desc"] = card.title
    content["meta"] = {"qualm": {"card": card.name, **({"skip_bad": True} if skipped else {})}}
    yaml.dump(content, file)


def _publish(
    root: Path,
    stage: Path,
    name: str,
    before: Entry | None,
    inspection: Inspection,
    card: Card,
    rewritten: Mapping[Path, str] = MappingProxyType({}),
) -> Added:
    """Move `.dvc` file and data into `registry/data`; return `Added`, or undo with AddError.

    The DVC file is the truth: after a kill between the two, the next `dvc checkout` or `qualm data add` brings the data.
    """
    _describe(stage / f"{name}.dvc", card, bool(inspection.skipped))
    data = root / DATA
    target = data / name
    data.mkdir(parents=True, exist_ok=True)
    if before is not None and before.md5 is not None and target.exists():
        _is_up_to_date(root, target, before.md5)
    hidden, record = data / ".gitignore", data / f"{name}.dvc"
    old = {place: place.read_bytes() if place.exists() else None for place in (hidden, record, *rewritten)}
    try:
        lines = hidden.read_text(encoding="utf-8").splitlines() if hidden.exists() else []
        if f"/{name}" not in lines:
            atomic.write_text(hidden, "".join(f"{line}\n" for line in [*lines, f"/{name}"]))
        _write_cards(rewritten)
        atomic.publish(stage / f"{name}.dvc", record)
        atomic.publish(stage / name, target)
    except OSError as error:
        for place, text in old.items():
            if text is None:
                place.unlink(missing_ok=True)
            else:
                atomic.write_bytes(place, text)
        raise AddError(f"{explain_error(error, str(target))}; everything is as it was") from error
    after = find(root, name)
    previous = before.md5 if before is not None else None
    outcome: Any = "added" if previous is None else "unchanged" if previous == after.md5 else "replaced"
    return Added(after, outcome, previous, inspection)


def _is_up_to_date(root: Path, target: Path, recorded: str) -> bool:
    """Return whether `target` has the MD5 `recorded`; AddError if its change is not cached."""
    with open_repo(root) as repo:
        now = hash_path(root, target, repo)
    if now is not None and now != recorded and not holds(cache_folder(root), now):
        raise AddError(
            f"{target}: was changed by hand and the change is kept nowhere; `dvc commit {target}.dvc` it or undo it by "
            f"`dvc checkout {target}.dvc` first"
        )
    return now == recorded


def _restore_recorded(root: Path, before: Entry, inspection: Inspection) -> Added:
    """Check out the recorded files unless present and unaltered; return `Added` (unchanged)."""
    assert before.md5 is not None
    if not (before.path.exists() and _is_up_to_date(root, before.path, before.md5)):
        dvc(root, "checkout", "--force", str(DATA / f"{before.name}.dvc"))
    return Added(before, "unchanged", before.md5, inspection)
