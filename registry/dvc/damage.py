"""Damage to what DVC keeps: files whose bytes are not those of the recorded hash, in the working tree or in the cache.

DVC trusts a cached object by its read-only mode, and a file of the working tree by its size, time and inode. So a damaged object is
linked or copied into the tree and passes for what its name says. Whatever reads or restores outputs compares them here instead.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from qualm.registry.dvc.config import cache_folder
from qualm.registry.dvc.ignore import Ignore
from qualm.registry.dvc.state import dir_md5, file_md5, listing, object_path, read_lock, read_yaml
from qualm.registry.formats import atomic

ASIDE = Path(".qualm/damaged")
"""Where damaged files go: nothing is deleted that somebody may want to look at."""


@dataclass(frozen=True)
class Recorded:
    """An output or an entry of data as a lock or a `.dvc` file has it."""

    path: str
    """From the root."""
    md5: str
    """`.dir` at the end for folders."""


def recorded(root: Path, paths: Iterable[str]) -> list[Recorded]:
    """What is on record of each path, or of the output that it lies in; nothing for what git keeps or no stage has made yet."""
    locks: dict[Path, dict[str, str]] = {}
    records = (_recorded(root, path, locks) for path in paths)
    return list(dict.fromkeys(record for record in records if record is not None))


def _recorded(root: Path, path: str, locks: dict[Path, dict[str, str]]) -> Recorded | None:
    candidates = [path, *(p.as_posix() for p in Path(path).parents if p != Path())]
    for candidate in candidates:
        pointer = root / f"{candidate}.dvc"
        if pointer.is_file():
            md5 = _pointed(pointer)
            return Recorded(candidate, md5) if md5 else None
    parts = Path(path).parts
    for lock in (root / "specs" / parts[1] / "dvc.lock", root / "dvc.lock") if parts[0] == "results" and len(parts) > 2 else ():
        hashes = locks[lock] if lock in locks else locks.setdefault(lock, locked_outputs(lock))
        for candidate in candidates:
            if candidate in hashes:
                return Recorded(candidate, hashes[candidate])
    return None


def locked_outputs(lock: Path) -> dict[str, str]:
    """Path -> hash of everything that the stages of a lock made."""
    return {out["path"]: str(out["md5"]) for entry in read_lock(lock).values() for out in entry.get("outs") or [] if out.get("md5")}


def _pointed(pointer: Path) -> str | None:
    raw = read_yaml(pointer)
    outs = raw.get("outs") if isinstance(raw, dict) else None
    first = outs[0] if isinstance(outs, list) and outs and isinstance(outs[0], dict) else {}
    return str(first["md5"]) if first.get("md5") else None


def content(root: Path, path: str) -> str | None:
    """The hash of what lies at a path, every byte read anew; None where there is nothing."""
    place = root / path
    try:
        return dir_md5(place, Ignore(root)) if place.is_dir() else file_md5(place)
    except FileNotFoundError:
        return None


def believed(root: Path, path: str) -> str:
    """The hash that DVC takes a file or folder for, by what it remembers of it."""
    from dvc.repo import Repo
    from dvc_data.hashfile.build import build
    from dvc_objects.fs.local import localfs

    with Repo(str(root)) as repo:
        _, _, tree = build(repo.cache.local, str(root / path), localfs, "md5", ignore=repo.dvcignore, dry_run=True)
    return str(tree.hash_info.value)


def is_damaged(file: Path, md5: str) -> bool:
    """Whether an object of the cache holds other bytes than those of its name."""
    return file_md5(file) != md5.removesuffix(".dir")


def damaged_objects(root: Path, md5: str) -> list[Path]:
    """A file's or a folder's objects in the cache that are damaged, a folder's listing among them."""
    store = cache_folder(root)
    members = (listing(store, md5) or {}).values() if md5.endswith(".dir") else ()
    return [file for h in dict.fromkeys([md5, *members]) if (file := object_path(store, h)).is_file() and is_damaged(file, h)]


def set_aside(root: Path, record: Recorded, tree: bool = True) -> Path:
    """Take a damaged output out of the working tree, whole, and its damaged objects out of the cache; the folder that holds them now.

    What is missing, DVC restores, fetches or makes anew. With `tree` false what lies in the working tree stays there.
    """
    folder = next(_free(root / ASIDE / record.path.replace("/", "__")))
    objects = damaged_objects(root, record.md5)
    place = root / record.path
    if tree and place.is_symlink():
        place.unlink()
    elif tree and place.exists():
        atomic.publish(place, folder / place.name)
    for file in objects:
        atomic.publish(file, folder / f"{file.parent.name}{file.name}")
    return folder


def _free(folder: Path) -> Iterator[Path]:
    """Folders of that name, made, and not there before."""
    for n in itertools.count():
        candidate = folder.with_name(f"{folder.name}.{n}") if n else folder
        try:
            candidate.mkdir(parents=True)
        except FileExistsError:
            continue
        yield candidate
