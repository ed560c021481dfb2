"""Hash files as DVC does; find, verify and link the objects of its cache.

An object is the content of one file, named by its MD5. A folder is an object too: the JSON list of its files, named by its MD5 and `.dir`.
DVC trusts a cached object by its read-only mode, and a file by its size, time and inode, so a damaged object passes for what its name
says. Whatever reads or restores outputs compares them here instead.
"""

import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from qualm.registry.system import atomic, textfiles
from qualm.registry.system.dvc_files import RecordedOutput, cache_folder, dvc_errors

DAMAGED = Path(".qualm/damaged")
"""Folder to which damaged files are moved; nothing is deleted."""


@contextmanager
def open_repo(root: Path) -> Iterator[Any]:
    """Yield the checkout's `dvc.repo.Repo`, None without `.dvc`; close it after.

    Raises DvcStateError if DVC cannot read it. Without a repository, no hashes are remembered.
    """
    if not (root / ".dvc").is_dir():
        yield None
        return
    with dvc_errors(f"{root}: DVC cannot read this checkout", "`dvc status` says more"):
        from dvc.repo import Repo

        repo = Repo(str(root))
    with repo:
        yield repo


def hash_path(root: Path, path: str | Path, repo: Any = None) -> str | None:
    """Return DVC's MD5 of a file or folder (ends in .dir); None if nothing is there.

    Every byte is read, unless `repo` is given (`open_repo`): then DVC's memory of hashes counts.
    """
    place = root / path
    if repo is None and not place.is_dir():
        return file_md5(place) if place.exists() else None
    return str(_build(root, place, repo).hash_info.value) if place.exists() else None


def hash_files(root: Path, folder: str | Path) -> dict[str, str]:
    """Return {relative path: MD5} of a folder's files, without those DVC ignores."""
    return {"/".join(key): str(found.value) for key, (_, found) in _build(root, root / folder).iteritems()}


def folder_md5(hashes: Mapping[str, str]) -> str:
    """Return DVC's MD5 of a folder with these files; it ends in .dir."""
    from dvc_data.hashfile.tree import Tree

    tree = Tree.from_list([{"relpath": name, "md5": md5} for name, md5 in hashes.items()])
    tree.digest()
    return str(tree.hash_info.value)


def file_md5(path: str | Path) -> str:
    """Return the MD5 of a file's bytes."""
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _build(root: Path, place: Path, repo: Any = None) -> Any:
    root = root.resolve()
    where = os.path.normpath(root / place)
    with dvc_errors(f"{where}: DVC cannot hash it", "correct it, or .dvcignore"):
        from dvc.ignore import DvcIgnoreFilter
        from dvc_data.hashfile.build import build
        from dvc_data.hashfile.db import HashFileDB
        from dvc_objects.fs.local import localfs

        store = HashFileDB(localfs, str(root / ".dvc")) if repo is None else repo.cache.local  # the former remembers nothing
        ignore = DvcIgnoreFilter(localfs, str(root)) if repo is None else repo.dvcignore
        return build(store, where, localfs, "md5", ignore=ignore, dry_run=True)[2]


def object_path(store: Path, md5: str) -> Path:
    """Return the path of the object with this MD5 in a cache or local remote."""
    return store / "files" / "md5" / md5[:2] / md5[2:]


def listing(store: Path, md5: str) -> dict[str, str] | None:
    """Return {relative path: MD5} of a folder object in a store; None if missing or bad."""
    try:
        entries = json.loads(textfiles.read_bytes(object_path(store, md5), 1 << 30))
        files = {str(e["relpath"]): str(e["md5"]) for e in entries}
    except (textfiles.TextFileError, ValueError, TypeError, KeyError, RecursionError):
        return None  # DVC too takes a damaged listing for a missing one
    paths = map(PurePosixPath, files)
    return None if any(path.is_absolute() or ".." in path.parts or not path.parts for path in paths) else files


def holds(store: Path, md5: str) -> bool:
    """Return whether a store has this object, of a folder also all its files."""
    files = listing(store, md5) if md5.endswith(".dir") else {"": md5}
    return files is not None and all(object_path(store, h).is_file() for h in files.values())


def is_damaged(file: Path, md5: str) -> bool:
    """Return whether a file's MD5 differs from `md5`, whose suffix `.dir` is ignored."""
    return file_md5(file) != md5.removesuffix(".dir")


def damaged_objects(root: Path, md5: str) -> list[Path]:
    """Return the damaged files in the cache for this MD5, of a folder also its files."""
    store = cache_folder(root)
    members = (listing(store, md5) or {}).values() if md5.endswith(".dir") else ()
    return [file for h in dict.fromkeys([md5, *members]) if (file := object_path(store, h)).is_file() and is_damaged(file, h)]


def set_aside(root: Path, record: RecordedOutput, tree: bool = True) -> Path:
    """Move an output (if `tree`) and damaged cache objects to a new folder; return the folder.

    A symbolic link is deleted. DVC then restores, fetches or makes again what is missing. Without `tree`, the working tree stays as it is.
    """
    folder = next(_make_folders(root / DAMAGED / record.path.replace("/", "__")))
    objects = damaged_objects(root, record.md5)
    place = root / record.path
    if tree and place.is_symlink():
        place.unlink()
    elif tree and place.exists():
        atomic.publish(place, folder / place.name)
    for file in objects:
        atomic.publish(file, folder / f"{file.parent.name}{file.name}")
    return folder


def _make_folders(folder: Path) -> Iterator[Path]:
    for n in itertools.count():
        numbered = folder.with_name(f"{folder.name}.{n}") if n else folder
        try:
            numbered.mkdir(parents=True)
        except FileExistsError:
            continue
        yield numbered


def link(store: Path, md5: str, place: Path) -> None:
    """Make symbolic links at the free path `place` to a cached object or a folder's objects.

    Hard links or copies replace symbolic links where the system allows none, as Windows does by default.
    """
    for relative, hashed in ((listing(store, md5) or {}) if md5.endswith(".dir") else {"": md5}).items():
        (place / relative).parent.mkdir(parents=True, exist_ok=True)
        _link_file(object_path(store, hashed), place / relative)


def _link_file(source: Path, place: Path) -> None:
    for make in (place.symlink_to, place.hardlink_to):
        try:
            return make(source)
        except FileExistsError:
            raise
        except OSError:
            continue
    shutil.copyfile(source, place)


def lies_in(folder: Path, path: Path) -> bool:
    """Return whether a path is below `folder` and resolves into it or into DVC's cache.

    No other link is followed: it could show a file of this machine to whoever sees the results.

    Raises:
        OSError, ValueError: no file can have such a name.
    """
    if not Path(os.path.normpath(path)).is_relative_to(os.path.normpath(folder)):
        return False
    target = path.resolve()
    return target.is_relative_to(folder.resolve()) or is_cached(folder, target)


def is_cached(folder: Path, target: Path) -> bool:
    """Return whether a resolved path lies below the DVC cache folder of the folder's project.

    The file need not exist.
    """
    objects = _objects(folder.resolve())
    return objects is not None and target.is_relative_to(objects)


@cache
def _objects(folder: Path) -> Path | None:
    root = next((p for p in (folder, *folder.parents) if (p / ".dvc").is_dir()), None)
    return (cache_folder(root) / "files").resolve() if root is not None else None
