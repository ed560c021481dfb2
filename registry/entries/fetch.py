"""The steps of `qualm fetch` for one entry: plan, download, unpack, add."""

import fnmatch
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from qualm.registry.entries import hub, lock
from qualm.registry.entries.adding import Added, AddError, Progress, add
from qualm.registry.entries.card import SLUG, SLUG_RULE, Card, Fetch, Members
from qualm.registry.entries.download import RemoteFile, announced_size, bytes_so_far, client, download, need_room, safe_path
from qualm.registry.entries.entries import DATA
from qualm.registry.entries.layout import is_named
from qualm.registry.entries.lock import FetchError
from qualm.registry.formats.archives import ArchiveError, unpack
from qualm.registry.plugins.commits import COMMIT
from qualm.registry.system import atomic
from qualm.registry.system.locks import ProcessLock

FOLDER = Path(".qualm/fetched")
MAX_OUTER_FOLDERS = 2
"""Folders around the layout that an archive may have."""

MissingFiles = Callable[[Path], list[Sequence[str]]]
"""Folder of official files -> for each file that a spec needs and that is not there, its possible paths in the folder."""


@dataclass(frozen=True)
class FetchPlan:
    name: str
    card: Card
    source: str
    revision: str
    files: list[RemoteFile]
    missing_files: MissingFiles | None = None
    """Finds the single files that are needed; None if whole archives are fetched."""

    @property
    def size(self) -> int:
        return sum(file.size or 0 for file in self.files)


@dataclass(frozen=True)
class Fetched:
    plan: FetchPlan
    added: Added
    recorded: int
    """Checksums that the project's lock has now and had not."""


class IncompleteError(Exception):
    """Error that fetched files do not match the card; the files stay in `folder`."""

    def __init__(self, folder: Path, error: AddError, also: str) -> None:
        super().__init__(str(error))
        self.folder, self.error, self.also = folder, error, also


def plan(
    root: Path,
    name: str,
    card: Card,
    uses: Sequence[Mapping[str, Any]] = (),
    missing_files: MissingFiles | None = None,
    upgrade: bool = False,
) -> FetchPlan:
    """Return what to download for an entry, requesting listings only; else FetchError.

    Args:
        uses: for each dataset of the spec that reads the entry, its adapter's arguments.
        missing_files: for a spec that asks few of the questions. Used if the card has addresses of single files.
        upgrade: take the newest commit of the branch instead of the pinned one.
    """
    if not SLUG.fullmatch(name):
        raise FetchError(f"'{name}' is not a valid name for an entry: {SLUG_RULE}")
    source = card.fetch
    if source is None:
        raise FetchError(
            f"{name}: its card names no address to fetch from. Download it by hand ({card.source}), "
            f"then `qualm data add {name} --from PATH`"
        )
    missing_files = missing_files if source.single else None
    pin = lock.read(root).get(name)
    files = [
        RemoteFile(path, one.url, one.bytes, {"the card": one.sha256} if one.sha256 else {})
        for path, one in _addresses(source, uses, missing_files)
    ]
    commit, where = "", card.source
    if source.repo is not None:
        where = f"hub:{source.repo}"
        pinned = pin.revision if pin is not None and pin.source == where and not upgrade else None
        asked = source.revision or lock.BRANCH
        patterns = source.files or tuple(rule.files for rule in card.layout)
        kind: hub.Kind = "model" if card.kind == "model" else "dataset"
        online = hub.listing(source.repo, asked if COMMIT.fullmatch(asked) else pinned or asked, patterns, kind)
        if not online.files:
            raise FetchError(
                f"{hub.page(source.repo, kind)}: none of its {online.others:,} files is {' or '.join(patterns)}; compare its card with "
                "what is there"
            )
        commit, files = online.commit, online.files + files
    same = pin is not None and (pin.source, pin.revision) == (where, commit) and not (upgrade and source.repo is None)
    files = [_with_checksums(file, card, source, pin if same else None) for file in files]
    for file in files:
        safe_path(root / FOLDER / name, file.name)
    return FetchPlan(name, card, where, commit, files, missing_files)


def with_sizes(plan: FetchPlan) -> FetchPlan:
    """Return a copy of the plan, unknown sizes filled in by asking the servers."""
    silent: set[str] = set()
    with client(timeout=5) as web:
        files = [file if file.size is not None else replace(file, size=announced_size(file, web, silent)) for file in plan.files]
    return replace(plan, files=files)


def _addresses(source: Fetch, uses: Sequence[Mapping[str, Any]], missing_files: MissingFiles | None) -> Iterator[tuple[str, Any]]:
    """Yield (path, address) of the URLs that `uses` need; skip archives fetched file by file."""
    replaced = {name for one in source.single.values() for name in one.instead_of} if missing_files else set()
    yield from ((path, one) for path, one in source.urls.items() if path not in replaced and one.is_needed(uses))


def unfetched_files(
    root: Path, name: str, source: Fetch, uses: Sequence[Mapping[str, Any]], missing_files: MissingFiles | None
) -> list[str]:
    """Return the files that `uses` need and that other uses fetched the entry without."""
    pin = lock.read(root).get(name)
    if pin is None:
        return []
    return [path for path, one in _addresses(source, uses, missing_files) if one.when and path not in pin.sha256]


def _with_checksums(file: RemoteFile, card: Card, source: Fetch, pin: lock.Pin | None) -> RemoteFile:
    known = {
        "the card": card.digests.get(file.name) or source.sha256.get(file.name),
        str(lock.FILE): pin.sha256.get(file.name) if pin else None,
    }
    return replace(file, sha256={**file.sha256, **{who: digest for who, digest in known.items() if digest}})


def fetch(root: Path, plan: FetchPlan, progress: Progress = lambda what, file, size, total: None) -> Fetched:
    """Download, verify and unpack a plan's files, then add the entry; FetchError on failure.

    Killed at any moment, the same call goes on where it was. Once the entry is added, what was fetched is deleted.

    Raises:
        FetchError: a file cannot be had or is another one.
        IncompleteError: the files are here and are not what the card wants.
    """
    name, source, home = plan.name, plan.card.fetch, root / FOLDER / plan.name
    assert source is not None
    busy = FetchError(f"another `qualm fetch` brings {name} into this checkout; let it end and try again")
    with ProcessLock(root / ".qualm" / "locks" / f"fetch-{name}.lock").hold(busy):
        home.mkdir(parents=True, exist_ok=True)
        paths = [(safe_path(home / _download_folder(source, file.name), file.name), file.size or 0) for file in plan.files]
        need_room(home, sum(max(0, size - bytes_so_far(path)) for path, size in paths if not path.exists()))
        with client() as web:
            digests = _download(home, source, plan.files, web, lambda file, size: progress("fetching", file, size, plan.size))
            before = lock.read(root).get(name)
            pin = lock.Pin(plan.source, plan.revision, digests)
            if before is not None and (before.source, before.revision) == (pin.source, pin.revision):
                pin = replace(pin, sha256={**before.sha256, **digests})  # another spec may need other files
            if before != pin:
                lock.write(root, {name: pin})
            _unpack(home, plan.card, source, digests, lambda file, size: progress("unpacking", file, size, 0))
            if plan.missing_files is not None:
                single = single_files(source, plan.missing_files(home / "files"))
                _download(home, source, single, web, lambda file, size: progress("fetching single files", file, size, 0))
        try:
            added = add(root, name, str(home / "files"), plan.card, progress, skip_bad=plan.missing_files is not None)
        except AddError as error:
            raise IncompleteError(home / "files", error, source.also) from error
        shutil.rmtree(home, ignore_errors=True)
        recorded = len(digests.keys() - (before.sha256.keys() if before else ())) if before != pin else 0
        return Fetched(plan, added, recorded)


def fetch_missing_files(root: Path, plan: FetchPlan, progress: Progress = lambda what, file, size, total: None) -> Fetched:
    """Fetch a plan's files and the missing single files into an entry; return `Fetched`.

    The entry keeps the files that it has. Raises as `fetch` does.
    """
    folder = root / FOLDER / plan.name / "files"
    if not folder.exists():
        copy = atomic.scratch_folder(folder.with_name("copied"))
        shutil.copytree(root / DATA / plan.name, copy, dirs_exist_ok=True)
        atomic.publish(copy, folder)
    return fetch(root, plan, progress)


def single_files(source: Fetch, wanted: Sequence[Sequence[str]]) -> list[RemoteFile]:
    """Return the file to download for each sequence of alternative paths; else FetchError."""
    files = {}
    for places in wanted:
        found = next(((path, one) for path in places for pattern, one in source.single.items() if fnmatch.fnmatchcase(path, pattern)), None)
        if found is None:
            raise FetchError(
                f"{places[0]}: the card has no address for single files; fetch the whole dataset, without `--limit` and without `limit:` "
                "in the spec"
            )
        path, one = found
        files[path] = RemoteFile(path, one.url.format(name=path.rpartition("/")[2], path=path))
    return list(files.values())


def _download(
    home: Path, source: Fetch, files: Sequence[RemoteFile], web: httpx.Client, progress: Callable[[str, int], None]
) -> dict[str, str]:
    return {file.name: download(file, home / _download_folder(source, file.name), web, progress) for file in files}


def _download_folder(source: Fetch, file: str) -> str:
    return "archives" if file in source.unpack else "files"


def _unpack(home: Path, card: Card, source: Fetch, digests: Mapping[str, str], progress: Callable[[str, int], None]) -> None:
    """Unpack the members that a card wants to `home`/files; FetchError if an archive is bad.

    Only archives that are keys of `digests` are unpacked; their checksums are not compared here.
    """
    (home / "files").mkdir(exist_ok=True)
    for archive, target_folder in source.unpack.items():
        if archive not in digests:
            continue
        members = target_folder if isinstance(target_folder, Members) else Members(into=target_folder)
        stage = home / "unpacked"
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir()
        taken: dict[str, str] = {}

        def takes(member: str, members: Members = members, taken: dict[str, str] = taken) -> bool:
            target = _target(card, members, member)
            if target in taken.values():
                raise ArchiveError(f"{member!r}: another member goes to {target} too; correct `unpack` on the card")
            return target is not None and bool(taken.setdefault(member, target))

        try:
            unpack(safe_path(home / "archives", archive), stage, progress, None, takes)
        except ArchiveError as error:
            raise FetchError(f"{archive}: {error}") from error
        for member, name in sorted(taken.items()):
            target = safe_path(home / "files", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            atomic.publish(stage / member, target)
        shutil.rmtree(stage)


def _target(card: Card, members: Members, member: str) -> str | None:
    """Return the entry's path for an archive's member; None if the card names none.

    Outer folders of the member are left out if need be.
    """
    strip, prefix = ("" if folder == "." else f"{folder}/" for folder in (members.strip, members.into))
    if not member.startswith(strip):
        return None
    parts = member.removeprefix(strip).split("/")
    names = (prefix + "/".join(parts[first:]) for first in range(min(len(parts), MAX_OUTER_FOLDERS + 1)))
    return next((name for name in names if is_named(card, name)), None)
