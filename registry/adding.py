"""`qualm data add`: official files into the registry, whole or not at all.

Files are checked where they lie, copied into a staging folder under `.qualm`, hashed and cached there by DVC in a
repository of its own, and only then renamed into place. Killed at any moment, it leaves the entry as it was or as it
will be; what it left in staging goes at the next run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from registry.cards import SLUG, Card
from registry.dvcconfig import cache_folder, configuration
from registry.dvcstate import Checkout, holds, read_yaml, tree_md5
from registry.entries import DATA, Entry, find
from registry.layout import Inspection, inspect

_GIT = re.compile(
    r"(?:git\+)?(?P<url>(?:https?|ssh|git|file)://(?:[^@/\s]+@)?[^@\s]+|[\w.-]+@[\w.-]+:[^@\s]+)(?:@(?P<rev>[A-Za-z0-9][\w./-]*))?"
)

Progress = Callable[[str, str, int], None]
"""Told (what is done, file, bytes) after each file."""


class AddError(Exception):
    """Why nothing was added: every problem at once."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Added:
    """What an add did and what it found."""

    entry: Entry
    outcome: Literal["added", "replaced", "unchanged"]
    previous: str | None
    """Digest of the version that was there before."""
    found: Inspection


def git_source(source: str) -> tuple[str, str | None] | None:
    """URL and revision, where a source is a git repository and not a folder."""
    match = _GIT.fullmatch(source)
    return (match["url"], match["rev"]) if match else None


def add(root: Path, name: str, source: str, card: Card, progress: Progress = lambda what, file, size: None) -> Added:
    """Check official files against their card and make them the entry `registry/data/NAME`.

    Raises:
        AddError: anything at all is wrong; nothing has changed then.
    """
    if not SLUG.fullmatch(name):
        raise AddError(f"'{name}' is no name for an entry: lower-case letters, digits, '-' and '_', at most 64, no path")
    if not (root / ".dvc").is_dir():
        raise AddError(f"{root}: no DVC repository here; run `dvc init` or go to the project's root")
    if not card.layout:
        raise AddError(f"'{card.name}' is generated, it has no official files; name its card in a spec, there is nothing to add")
    with _alone(root), _staging(root, name) as stage:
        target = root / DATA / name
        before = find(root, name) if (root / DATA / f"{name}.dvc").exists() else None
        if before is None and target.exists():
            raise AddError(f"{target} exists and DVC does not track it; move it away, or `dvc add` it yourself")
        repository = git_source(source)
        found = (
            _import(stage, name, *repository, card, progress) if repository else _copy(root, stage, name, source, card, progress, before)
        )
        if found is None or not (stage / f"{name}.dvc").exists():
            assert before is not None
            return _unchanged(root, before, card)
        _describe(stage / f"{name}.dvc", card)
        return _publish(root, stage, name, before, found)


def dvc(folder: Path, *arguments: str) -> None:
    """Run DVC in a folder.

    Raises:
        AddError: it failed, with what it said.
    """
    environment = {**os.environ, "DVC_NO_ANALYTICS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        raise AddError(f"dvc {' '.join(arguments)}: {'; '.join(said) or done.stderr.strip() or 'failed'}")


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    lock = root / ".qualm" / "locks" / "data.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AddError("another `qualm data add` is at work in this checkout; let it end and try again") from None
        yield


@contextmanager
def _staging(root: Path, name: str) -> Iterator[Path]:
    """A DVC repository without git that shares this checkout's cache, gone at the end."""
    stages = root / ".qualm" / "staging"
    shutil.rmtree(stages, ignore_errors=True)  # what a killed run left: nobody else is at work now
    stage = stages / name
    (stage / ".dvc").mkdir(parents=True)
    types = configuration(root).get("cache", {}).get("type")
    settings = f"[core]\n    no_scm = true\n    analytics = false\n[cache]\n    dir = {cache_folder(root)}\n"
    (stage / ".dvc" / "config").write_text(settings + (f"    type = {types}\n" if types else ""), encoding="utf-8")
    if (root / ".dvcignore").is_file():  # so that what it hides is noticed now, not by the next `dvc status`
        shutil.copyfile(root / ".dvcignore", stage / ".dvcignore")
    try:
        yield stage
    finally:
        shutil.rmtree(stages, ignore_errors=True)


def _copy(root: Path, stage: Path, name: str, source: str, card: Card, progress: Progress, before: Entry | None) -> Inspection | None:
    """Check a folder and copy what its card names; None where the entry already is exactly that."""
    folder = Path(source).expanduser()
    if not folder.is_dir():
        what = "is a file; unpack it and give the folder" if folder.exists() else "does not exist"
        raise AddError(f"{source}: {what}; --from takes a folder, or URL@revision of a git repository")
    folder = folder.resolve()
    if folder.is_relative_to((root / DATA).resolve()):
        raise AddError(f"{source}: lies in the registry already; --from takes the original files")
    found = inspect(folder, card, lambda file, size: progress("checking", file, size))
    if found.problems:
        raise AddError(*found.problems)
    if before is not None and (before.size, before.nfiles) == (found.size, len(found.files)):
        hashes = {file: _stream(folder / file, None) for file in found.files}
        same = tree_md5(hashes) == before.md5 and before.card == card.name and before.origin is None
        if (
            same and before.md5 is not None and holds(cache_folder(root), before.md5)
        ):  # a fresh clone has it on record, but not in its cache
            return None
    hashes = {}
    for file, size in found.files.items():
        target = stage / name / file
        target.parent.mkdir(parents=True, exist_ok=True)
        hashes[file] = _stream(folder / file, target)
        if target.stat().st_size != size:
            raise AddError(f"{folder / file}: changed while it was being copied; try again when nothing writes there")
        progress("copying", file, size)
    dvc(stage, "add", name)
    made = read_yaml(stage / f"{name}.dvc")["outs"][0]["md5"]
    if made != tree_md5(hashes):
        raise AddError(f"{name}: DVC hashed {made}, the files copied are {tree_md5(hashes)}; does .dvcignore hide some of them?")
    return found


def _stream(source: Path, target: Path | None) -> str:
    """Copy a file, never through a link, and hash it on the way."""
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with os.fdopen(os.open(source, os.O_RDONLY | os.O_NOFOLLOW), "rb") as reading:
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
        raise AddError(f"{error.filename or source}: {error.strerror or error}; nothing was added") from error
    return digest.hexdigest()


def _import(stage: Path, name: str, url: str, rev: str | None, card: Card, progress: Progress) -> Inspection:
    if rev is None:
        raise AddError(f"{url}: which revision? Give a tag or commit, `--from {url}@REVISION`, so that everyone gets the same files")
    progress("importing", url, 0)
    dvc(stage, "import", "--rev", rev, "--out", name, "--", url, ".")
    found = inspect(stage / name, card, lambda file, size: progress("checking", file, size))
    links = [p.relative_to(stage / name).as_posix() for p in (stage / name).rglob("*") if p.is_symlink()]
    problems = [*found.problems, *(f"{link}: a link; repositories with links are not taken" for link in links)]
    if problems:
        raise AddError(*dict.fromkeys(problems))
    return found


def _describe(file: Path, card: Card) -> None:
    """Note in the DVC file, where DVC keeps it as it is, what the entry is."""
    text = file.read_text(encoding="utf-8")
    file.write_text(f"{text}desc: {json.dumps(card.title)}\nmeta:\n  qualm:\n    card: {json.dumps(card.name)}\n", encoding="utf-8")


def _publish(root: Path, stage: Path, name: str, before: Entry | None, found: Inspection) -> Added:
    """Put the DVC file, then the data, in place. The DVC file is the truth: after a kill between the two, the next
    `dvc checkout` or `qualm data add` brings the data."""
    data = root / DATA
    target = data / name
    data.mkdir(parents=True, exist_ok=True)
    if before is not None and before.md5 is not None and target.exists():
        _keep_changes(root, target, before.md5)
    _hide_from_git(data / ".gitignore", name)
    record = data / f"{name}.dvc"
    old = record.read_bytes() if record.exists() else None
    try:
        (stage / f"{name}.dvc").replace(record)
        if target.exists():
            target.replace(stage / ".old")
        (stage / name).replace(target)
    except OSError as error:
        if old is None:
            record.unlink(missing_ok=True)
        else:
            record.write_bytes(old)
        if (stage / ".old").exists():
            (stage / ".old").replace(target)
        raise AddError(f"{target}: {error.strerror or error}; everything is as it was") from error
    after = find(root, name)
    previous = before.md5 if before is not None else None
    outcome: Any = "added" if previous is None else "unchanged" if previous == after.md5 else "replaced"
    return Added(after, outcome, previous, found)


def _keep_changes(root: Path, target: Path, recorded: str) -> None:
    with Checkout(root) as checkout:
        now = checkout.path_md5(target)
        if now is not None and now != recorded and not holds(checkout.cache, now):
            raise AddError(f"{target}: was changed by hand and the change is kept nowhere; `dvc commit` it or `dvc checkout` it away first")


def _unchanged(root: Path, before: Entry, card: Card) -> Added:
    """The recorded version is the one asked for; the working copy may be gone, or another one that a kill left."""
    assert before.md5 is not None
    if before.path.exists():
        _keep_changes(root, before.path, before.md5)
    dvc(root, "checkout", "--force", str(DATA / f"{before.name}.dvc"))
    return Added(before, "unchanged", before.md5, inspect(before.path, card))


def _hide_from_git(file: Path, name: str) -> None:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    if f"/{name}" not in lines:
        partial = file.with_name(f".gitignore.{os.getpid()}")
        partial.write_text("".join(f"{line}\n" for line in [*lines, f"/{name}"]), encoding="utf-8")
        partial.replace(file)
