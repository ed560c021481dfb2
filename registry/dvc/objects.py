"""Which objects of DVC's cache a project refers to: now, at every commit of its history, and in the records of the run cache.

An object is one file's content, named by its hash; a folder is an object too, the list of its files. What a checkout of a
commit needs are the outputs in its locks and the data in its `.dvc` files, less what lies in git. Nothing here imports DVC.
"""

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qualm.registry import SPEC_STAGE
from qualm.registry.dvc import git as run_git
from qualm.registry.dvc import pointers
from qualm.registry.dvc.config import DvcStateError, cache_folder
from qualm.registry.dvc.state import listing, parse_yaml, read_yaml
from qualm.registry.formats.textfiles import is_file, read_bytes

POINTERS = (":(top,glob)**/dvc.lock", ":(top,glob)**/*.dvc")
"""Where git keeps hashes of what DVC keeps."""


@dataclass
class Objects:
    """Hashes, each with one path that it stands for or stood for; folders end in `.dir`."""

    paths: dict[str, str] = field(default_factory=dict)
    legacy: set[str] = field(default_factory=set)
    """Paths recorded by DVC 2, which keeps its objects elsewhere."""
    unreadable: set[str] = field(default_factory=set)
    """Locks and `.dvc` files that say nothing, such as one with a merge's marks in it."""

    def add(self, outs: Iterable[Mapping[str, Any]], folder: str = "") -> None:
        for out in outs:
            path = f"{folder}/{out.get('path')}" if folder else str(out.get("path"))
            if not out.get("md5") or out.get("push") is False:
                continue
            if out.get("hash") == "md5":
                self.paths.setdefault(str(out["md5"]), path)
            else:
                self.legacy.add(path)

    def with_files(self, *stores: Path) -> dict[str, str]:
        """These and the files of those folders that one of the stores on this disk lists."""
        paths = dict(self.paths)
        for md5, path in self.paths.items():
            if md5.endswith(".dir"):
                files = next((f for s in stores if (f := listing(s, md5)) is not None), {})
                paths |= {hashed: f"{path}/{name}" for name, hashed in files.items() if hashed not in paths}
        return paths


def present(root: Path) -> Objects:
    """What a checkout of the commit that is checked out needs."""
    tracked = tracked_files(root)
    objects = Objects()
    for name in sorted(tracked):
        if is_pointer(name) and is_file(root / name):
            _read(name, read_bytes(root / name), tracked, objects)
    return objects


HISTORY = ("log", "--exclude=refs/exps/*", "--exclude=refs/stash", "--all", "--full-history", "-m", "--format=")
"""All commits of all branches, tags and remotes, every side of every merge. DVC's experiments are not among them."""


def past(root: Path) -> Objects:
    """What checkouts of all commits need. Files that git kept are among them, as far as locks name them."""
    listed = git(root, *HISTORY, "--raw", "--no-abbrev", "--", *POINTERS)
    blobs = {}
    for line in listed.splitlines():
        facts, _, name = line.partition("\t")
        blobs[facts.split()[3]] = name.strip('"')
    blobs.pop("0" * 40, None)
    blobs.pop("0" * 64, None)
    objects = Objects()
    for blob, content in _contents(root, list(blobs)):
        try:
            _read(blobs[blob], content, set(), objects)
        except DvcStateError:
            objects.unreadable.add(blobs[blob])
    return objects


def recorded(root: Path) -> Objects:
    """What the records of this checkout's run cache restore; outputs that git keeps are among them."""
    objects = Objects()
    for file in sorted((cache_folder(root) / "runs").glob("*/*/*")):
        try:
            record = pointers.stages({"stages": {file.name: read_yaml(file)}}, str(file))[file.name]
        except DvcStateError:
            continue  # DVC too takes a damaged record for none
        objects.add(record.get("outs", []))
    return objects


def is_pointer(name: str) -> bool:
    """Whether a path in git holds hashes of what DVC keeps."""
    return name.endswith(".dvc") or name.rsplit("/", 1)[-1] == "dvc.lock"


def tracked_files(root: Path) -> set[str]:
    """Paths that git tracks, from the root."""
    return set(git(root, "ls-files", "-z").split("\0")) - {""}


def ever_tracked(root: Path) -> set[str]:
    """Paths that git tracks now or ever did."""
    return set(git(root, *HISTORY, "--diff-filter=A", "--name-only", "-z").replace("\n", "\0").split("\0")) - {""}


def git(root: Path, *arguments: str) -> str:
    """Return git's output, else raise DvcStateError."""
    try:
        return run_git.git(root, *arguments)
    except run_git.GitError as error:
        raise DvcStateError(str(error)) from None


def _contents(root: Path, blobs: list[str]) -> Iterator[tuple[str, bytes]]:
    done = subprocess.run(["git", "cat-file", "--batch"], cwd=root, input="\n".join(blobs).encode(), capture_output=True, check=True)
    at = 0
    for blob in blobs:
        end = done.stdout.index(b"\n", at)
        size = int(done.stdout[at:end].split()[-1])
        yield blob, done.stdout[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


def _read(name: str, content: bytes, tracked: set[str], objects: Objects) -> None:
    """The objects of one lock or `.dvc` file, without those whose path git tracks."""
    raw = parse_yaml(content, name)
    if name.endswith(".dvc"):
        pointer = pointers.pointer(raw, name)
        if not any("repo" in dep for dep in pointer.get("deps") or []):  # an import comes from where it was imported
            objects.add(pointer["outs"], name.rpartition("/")[0])
        return
    for key, stage in pointers.stages(raw, name).items():
        if key != SPEC_STAGE:
            objects.add(out for out in stage.get("outs", []) if out["path"] not in tracked)
