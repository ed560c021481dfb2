"""DVC's hashes, locks and cache, read without importing DVC.

- A file's hash is the MD5 of its bytes. A folder's is the MD5 of the JSON list of its files' hashes, plus `.dir`.
  What `.dvcignore` names is not part of a folder.
- Two traps of DVC's run cache, which the compiler must avoid. DVC drops EVERY key named `size` or `nfiles` from what it hashes, at any
  depth, parameters included: two runs that differ only in such a parameter have one key, and DVC then restores the
  wrong outputs. And a stage with a plain output of `cache: false` has no run cache at all (a metric or plot may have it).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from qualm.registry.dvc import pointers
from qualm.registry.dvc.config import DvcStateError, cache_folder
from qualm.registry.dvc.ignore import Ignore
from qualm.registry.formats import atomic, textfiles
from qualm.registry.formats.textfiles import NoFileError, TextFileError, shortened

_RACY, _TICK = 2_000_000_000, 50_000_000
"""A file changed less than so many ns ago may change again within one tick of its clock: its hash is not remembered. The latter where
the clock counts finer than milliseconds, the former elsewhere (FAT counts by 2 s)."""


def file_state(path: str | Path) -> list[int]:
    """Size, modification and change time, inode: what is another when a file is."""
    status = os.stat(path)  # noqa: PTH116 - a str or a Path, many times over
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def settled(state: list[int]) -> bool:
    """Whether any later change of a file would show in its state, taken just before now."""
    newest = max(state[1], state[2])
    return time.time_ns() - newest > (_TICK if newest % 1_000_000 else _RACY)


def file_md5(path: str | Path) -> str:
    """MD5 of a file's bytes."""
    with open(path, "rb") as handle:  # noqa: PTH123 - a str or a Path, many times over
        return str(hashlib.file_digest(handle, _md5).hexdigest())


def dir_md5(path: str | Path, ignore: Ignore | None = None) -> str:
    """DVC's hash of a folder, `.dir` included.

    Args:
        path: the folder. Links to files count as what they point to; links to folders are skipped, as DVC does.
        ignore: the checkout's ignore rules; None ignores nothing.
    """
    return tree_md5({name: file_md5(file) for name, file in _files(Path(path), ignore)})


def tree_md5(hashes: Mapping[str, str]) -> str:
    """The hash of a folder whose files, as relative POSIX paths, have these hashes."""
    entries = [{"md5": hashes[name], "relpath": name} for name in sorted(hashes)]
    return f"{_md5(json.dumps(entries, sort_keys=True).encode()).hexdigest()}.dir"


def read_lock(path: str | Path) -> dict[str, Any]:
    """Read `dvc.lock` into name -> {cmd, deps, params, outs}; empty without a lock.

    Raises:
        DvcStateError: it is not a lock of schema 2.0.
    """
    raw = read_yaml(path)
    if raw is None:
        return {}
    if not isinstance(raw, dict) or str(raw.get("schema")) != "2.0":
        schema = raw.get("schema") if isinstance(raw, dict) else type(raw).__name__
        raise DvcStateError(f"{path}: expected a DVC lock of schema 2.0, got {shortened(schema)}; delete it and run again")
    return pointers.stages(raw, str(path))


def read_yaml(path: str | Path) -> Any:
    """Read a `.dvc` or `dvc.lock` file as DVC does (YAML 1.2); None without a file.

    Raises:
        DvcStateError: the file cannot be read, or is not YAML.
    """
    try:
        return parse_yaml(textfiles.read_text(path), str(path))
    except NoFileError:
        return None
    except TextFileError as error:
        raise DvcStateError(f"{error}; restore it with `git checkout {path}` or delete it and run again") from None


def read_pointer(path: str | Path) -> dict[str, Any]:
    """Read a `.dvc` file, else raise DvcStateError."""
    return pointers.pointer(read_yaml(path), str(path))


def parse_yaml(text: str | bytes, where: str) -> Any:
    """Parse text as `read_yaml` does a file, else raise DvcStateError that names `where`."""
    try:
        return textfiles.parse_yaml(text, where, _loader())
    except TextFileError as error:
        raise DvcStateError(f"{error}; restore it with `git checkout {where}` or delete it and run again") from error


class Checkout:
    """One checkout's files, cache and run cache, with hashes remembered in `.qualm/hashes.json`.

    A remembered hash holds while size, inode, modification and change time are the same.
    Used as a context manager, or `save` is called at the end.
    """

    def __init__(self, root: str | Path = ".") -> None:
        self.root = Path(root).resolve()
        self.ignore = Ignore(self.root)
        self.cache = cache_folder(self.root)
        self._file = self.root / ".qualm" / "hashes.json"
        self._entries: dict[str, list[Any]] = self._read()
        self._changed = False

    def __enter__(self) -> Checkout:
        return self

    def __exit__(self, *_: object) -> None:
        self.save()

    def tracker(self, path: str | Path) -> tuple[str, str | None] | None:
        """The `.dvc` file that tracks a path or a folder above it, and the hash it records; None where there is none."""
        for tracked in (Path(path), *Path(path).parents):
            pointer = Path(f"{tracked}.dvc")
            if tracked != Path() and textfiles.is_file(self.root / pointer):
                return pointer.as_posix(), read_pointer(self.root / pointer)["outs"][0].get("md5")
        return None

    def path_md5(self, path: str | Path) -> str | None:
        """The hash DVC gives a file or folder of the checkout; None where there is none."""
        place = self.root / path
        try:
            if not place.is_dir():
                return self._remembered(place)
        except FileNotFoundError:
            return None
        place = Path(os.path.normpath(place))
        try:
            return tree_md5({name: self._remembered(file) for name, file in _files(place, self.ignore)})
        except FileNotFoundError as error:
            raise DvcStateError(f"{error.filename}: a link to nothing, or removed just now; DVC cannot hash its folder either") from error

    def files(self, path: str | Path) -> dict[str, str]:
        """The files of a folder that DVC counts, relative POSIX path -> hash, every one read anew."""
        return {name: file_md5(file) for name, file in _files(Path(os.path.normpath(self.root / path)), self.ignore)}

    def dep(self, path: str, md5: str | None = None) -> dict[str, Any] | None:
        """A dependency's entry as the lock would have it now; None where the path is missing and no hash is given.

        Args:
            path: as it stands in dvc.yaml, from the root.
            md5: the hash it will have, where a stage that is yet to run or be restored makes it.
        """
        digest = md5 or self.path_md5(path)
        if digest is None:
            return None
        entry: dict[str, Any] = {"path": path, "hash": "md5", "md5": digest}
        place = self.root / path
        if place.is_file() and place.stat().st_mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH):
            entry["isexec"] = True
        return entry

    def cached(self, md5: str) -> bool:
        """Whether a file, or a folder with all that it lists, lies in the cache."""
        return holds(self.cache, md5)

    def save(self) -> None:
        """Write the remembered hashes, if there are new ones and a place for them that can be written."""
        if not self._changed:
            return
        with suppress(OSError):
            atomic.write_text(self._file, json.dumps(self._entries))
        self._changed = False

    def _remembered(self, path: Path) -> str:
        state = file_state(path)
        entry = self._entries.get(str(path))
        if entry is not None and entry[:4] == state:
            return str(entry[4])
        md5 = file_md5(path)
        self.learn(path, state, md5)
        return md5

    def learn(self, path: Path, state: list[int], md5: str) -> None:
        """Remember the hash that a file has in this state (`file_state`, taken before the file was read)."""
        if settled(state):
            self._entries[str(path)] = [*state, md5]
            self._changed = True

    def _read(self) -> dict[str, list[Any]]:
        try:
            raw = json.loads(textfiles.read_bytes(self._file, 1 << 30))
        except (TextFileError, ValueError, RecursionError):
            return {}  # a memory, nothing more: it is made anew
        return {k: v for k, v in raw.items() if isinstance(v, list) and len(v) == 5} if isinstance(raw, dict) else {}


def listing(store: Path, md5: str) -> dict[str, str] | None:
    """The files of a folder, relative path -> hash, as a cache or a remote on disk lists them; None where it does not, or where it lists
    what is no file inside the folder."""
    try:
        entries = json.loads(textfiles.read_bytes(object_path(store, md5), 1 << 30))
        files = {str(e["relpath"]): str(e["md5"]) for e in entries}
    except (TextFileError, ValueError, TypeError, KeyError, RecursionError):
        return None  # DVC too takes a damaged listing for a missing one
    paths = map(PurePosixPath, files)
    return None if any(path.is_absolute() or ".." in path.parts or not path.parts for path in paths) else files


def holds(store: Path, md5: str) -> bool:
    """Whether a cache or a remote on disk has a file, or a folder with all that it lists."""
    if not md5.endswith(".dir"):
        return object_path(store, md5).is_file()
    files = listing(store, md5)
    return files is not None and all(object_path(store, h).is_file() for h in files.values())


def held(store: Path, hashes: Iterable[str], hashed: bool = False) -> set[str]:
    """Those of the hashes whose own object, the list itself of a folder, is in a cache or a remote on disk.

    Args:
        store: its folder.
        hashes: of files and folders.
        hashed: read each and take only what is not damaged.
    """
    present = {h for h in hashes if object_path(store, h).is_file()}
    return {h for h in present if file_md5(object_path(store, h)) == h.removesuffix(".dir")} if hashed else present


def object_path(store: Path, md5: str) -> Path:
    """Where a cache or a remote on disk keeps a file or a folder's listing."""
    return store / "files" / "md5" / md5[:2] / md5[2:]


def _md5(data: bytes = b"") -> Any:
    return hashlib.md5(data, usedforsecurity=False)


def _files(folder: Path, ignore: Ignore | None) -> Iterator[tuple[str, Path]]:
    """Files DVC counts as a folder's, as (relative POSIX path, file)."""
    if ignore is not None and ignore.hides_any(folder):
        return
    for parent, folders, names in os.walk(folder):
        here = Path(parent)
        if ".dvcignore" in names:
            raise DvcStateError(f"{here / '.dvcignore'}: DVC takes no .dvcignore inside a tracked folder; move its lines to the root's")
        if ignore is not None:
            folders[:] = [f for f in folders if not ignore.hides(here / f, True)]
        for name in names:
            file = here / name
            if ignore is None or not ignore.hides(file, False):
                yield file.relative_to(folder).as_posix(), file


@cache
def _loader() -> type[Any]:
    """PyYAML's fast safe loader with the scalars of YAML 1.2, in which DVC writes: `no` and `1:30` are text, 1e-4 a number."""

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML's own way

    for tag, pattern, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("int", r"[-+]?0b[01_]+|[-+]?0o?[0-7_]+|[-+]?[0-9_]+|[-+]?0x[0-9a-fA-F_]+", "-+0123456789"),
        (
            "float",
            r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
            r"|[-+]?\.[0-9_]+(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
            "-+.0123456789",
        ),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), list(first))
    return Loader
