"""The steps of `qualm data fetch`."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from qualm.registry.entries.adding import Added, AddError, Progress, add
from qualm.registry.entries.card import SLUG, SLUG_RULE, Card, Fetch
from qualm.registry.entries.entries import DATA
from qualm.registry.entries.fetching import hub, lock
from qualm.registry.entries.fetching.download import FetchError, RemoteFile, client, download, need_room, place
from qualm.registry.entries.layout import is_named
from qualm.registry.formats import atomic
from qualm.registry.formats.archives import ArchiveError, unpack
from qualm.registry.formats.locks import ProcessLock

FOLDER = Path(".qualm/fetched")


@dataclass(frozen=True)
class FetchPlan:
    name: str
    card: Card
    source: str
    revision: str
    files: list[RemoteFile]
    unpinned: int
    """Files of which no checksum is known before they come."""

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
    """What came is not all that the card wants, or not as it wants it; it is kept."""

    def __init__(self, folder: Path, error: AddError, also: str) -> None:
        super().__init__(str(error))
        self.folder, self.error, self.also = folder, error, also


def plan(root: Path, name: str, card: Card, revision: str | None = None) -> FetchPlan:
    """Return what will come, from where, at which commit.

    Args:
        root: the project.
        name: of the entry.
        card: says where the files are.
        revision: commit, branch or tag, instead of the lock's or the card's commit.

    Raises:
        FetchError: the card names no address or pins nothing, or the hub does not answer.
    """
    if not SLUG.fullmatch(name):
        raise FetchError(f"'{name}' is not a valid name for an entry: {SLUG_RULE}")
    source = card.fetch
    if source is None:
        raise FetchError(
            f"{name}: its card names no address to fetch from. Download it by hand ({card.source}), "
            f"then `qualm data add {name} --from PATH`"
        )
    pin = lock.read(root).get(name)
    files = [RemoteFile(path, one.url, one.bytes, {"the card": one.sha256} if one.sha256 else {}) for path, one in source.urls.items()]
    commit, where = "", card.source
    if source.repo is not None:
        where = f"hub:{source.repo}"
        pinned = pin.revision if pin is not None and pin.source == where else source.revision
        patterns = source.files or tuple(rule.files for rule in card.layout)
        online = hub.listing(source.repo, revision or pinned or "main", patterns)
        if not (revision or pinned):
            raise FetchError(
                f"{name}: its card pins no commit of {hub.HUB}/datasets/{source.repo}, so that everyone could get other files. The "
                f"newest is {online.commit}: look at it, then `qualm data fetch {name} --revision {online.commit}` pins it in {lock.FILE}"
            )
        if not online.files:
            raise FetchError(
                f"{hub.HUB}/datasets/{source.repo}: none of its {online.others:,} files is {' or '.join(patterns)}; compare its card with "
                "what is there"
            )
        commit, files = online.commit, online.files + files
    elif revision:
        raise FetchError(f"{name}: is fetched from plain addresses, which have no revisions; leave out --revision")
    files = [_with_checksums(file, card, source, pin if pin and (pin.source, pin.revision) == (where, commit) else None) for file in files]
    for file in files:
        place(root / FOLDER / name, file.name)
    return FetchPlan(name, card, where, commit, files, sum(not file.sha256 and file.blob is None for file in files))


def _with_checksums(file: RemoteFile, card: Card, source: Fetch, pin: lock.Pin | None) -> RemoteFile:
    digests_there = {
        "the card": card.digests.get(file.name) or source.sha256.get(file.name),
        str(lock.FILE): pin.sha256.get(file.name) if pin else None,
    }
    return replace(file, sha256={**file.sha256, **{who: digest for who, digest in digests_there.items() if digest}})


def fetch(root: Path, plan: FetchPlan, progress: Progress = lambda what, file, size, total: None) -> Fetched:
    """Bring the files, hold them to their checksums, unpack archives, and add all of it.

    Killed at any moment, the same call goes on where it was. Once the entry is added, what was fetched is deleted.

    Raises:
        FetchError: a file cannot be had or is another one.
        IncompleteError: the files are here and are not what the card wants.
    """
    name, source, home = plan.name, plan.card.fetch, root / FOLDER / plan.name
    assert source is not None
    with _alone(root, name):
        home.mkdir(parents=True, exist_ok=True)
        missing = [file for file in plan.files if not place(home / _side(source, file.name), file.name).exists()]
        need_room(home, missing, shutil.disk_usage(home).free)
        digests = {}
        with client() as web:
            for file in plan.files:
                tell = lambda file, size: progress("fetching", file, size, plan.size)  # noqa: E731
                digests[file.name] = download(file, home / _side(source, file.name), web, tell)
        before = lock.read(root).get(name)
        pin = lock.Pin(plan.source, plan.revision, digests)
        if before != pin:
            lock.write(root, name, pin)
        recorded = len(digests.keys() - (before.sha256.keys() if before else ())) if before != pin else 0
        _unpack(home, plan.card, source, lambda file, size: progress("unpacking", file, size, 0))
        try:
            added = add(root, name, str(home / "files"), plan.card, progress)
        except AddError as error:
            raise IncompleteError(home / "files", error, source.also) from error
        shutil.rmtree(home, ignore_errors=True)
        return Fetched(plan, added, recorded)


def _side(source: Fetch, file: str) -> str:
    return "archives" if file in source.unpack else "files"


def _unpack(home: Path, card: Card, source: Fetch, progress: Callable[[str, int], None]) -> None:
    """Archives into the folder that the card says, each by itself first, so that none writes over what another has."""
    (home / "files").mkdir(exist_ok=True)
    for archive, inside in source.unpack.items():
        stage = home / "unpacked"
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir()
        prefix = "" if inside == "." else f"{inside}/"

        def takes(member: str, prefix: str = prefix) -> bool:
            return is_named(card, prefix + member)

        try:
            unpack(place(home / "archives", archive), stage, progress, None, takes)
        except ArchiveError as error:
            raise FetchError(f"{archive}: {error}") from error
        for path in sorted(p for p in stage.rglob("*") if p.is_file()):
            target = place(home / "files", prefix + path.relative_to(stage).as_posix())
            target.parent.mkdir(parents=True, exist_ok=True)
            atomic.publish(path, target)
        shutil.rmtree(stage)


@contextmanager
def _alone(root: Path, name: str) -> Iterator[None]:
    lock = ProcessLock(root / ".qualm" / "locks" / f"fetch-{name}.lock")
    if not lock.acquire():
        raise FetchError(f"another `qualm data fetch {name}` is at work in this checkout; let it end and try again")
    try:
        yield
    finally:
        lock.release()


def is_added(root: Path, name: str) -> bool:
    return (root / DATA / f"{name}.dvc").exists()
