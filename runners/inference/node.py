"""Bootstrap of a cluster worker: it fetches code and data by their content.

Ray sends this class by value, so it imports nothing of ours. A worker needs Python, Ray and the libraries, but no checkout and no
shared folder.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

CODE = "code"
"""Folder of a tree that holds the package."""
BUNDLE = "code.zip"
"""File of a tree with all code of the package and the project."""
KEPT = 7 * 86_400
"""Seconds without use after which files are removed."""


class Node:
    """Ray actor that computes batches of one stage on a worker of the cluster."""

    def __init__(self, files: Mapping[str, str]) -> None:
        """Keep {path: SHA-256} of a stage's files; create the user's private temporary folder.

        Raises:
            PermissionError: the folder belongs to another user.
        """
        self.files = dict(files)
        user = os.getuid() if hasattr(os, "getuid") else 0  # on Windows each account has a temporary folder of its own
        self.home = Path(tempfile.gettempdir()) / f"qualm-cluster-{user}"
        # The temporary folder is everybody's, and what lies here is executed: it must be ours alone.
        self.home.mkdir(mode=0o700, exist_ok=True)
        if self.home.stat().st_uid != user:
            raise PermissionError(f"{self.home} belongs to another user; have it removed, or set TMPDIR to a folder of your own")
        self.work: Any = None

    def missing(self) -> list[str]:
        """Return the sorted SHA-256 of the files that this machine lacks; delete unused old ones."""
        lacking = {digest for digest in self.files.values() if not _touch(self._object(digest))}
        self._tidy()
        return sorted(lacking)

    def _tidy(self) -> None:
        """Remove trees and files that no stage has used for a week."""
        now = time.time()
        for tree in (self.home / "trees").glob("*"):
            if now - _last_change(tree) > KEPT:
                shutil.rmtree(tree, ignore_errors=True)
        for file in (self.home / "objects").glob("*/*"):
            with suppress(FileNotFoundError):  # another worker removes it too
                # A file of a tree is the same one by a hard link, so with one link left it is of none.
                if now - _last_change(file) > KEPT and file.stat().st_nlink == 1:
                    file.unlink()

    def fill(self, pieces: Mapping[str, Sequence[Any]]) -> None:
        """Store missing files, {SHA-256: Ray references to pieces}; OSError if one is damaged."""
        import ray

        for digest, references in pieces.items():
            place = self._object(digest)
            place.parent.mkdir(parents=True, exist_ok=True)
            handle, partial = tempfile.mkstemp(dir=place.parent)
            total = hashlib.sha256()
            with os.fdopen(handle, "wb") as file:
                for reference in references:
                    piece = ray.get(reference)
                    total.update(piece)
                    file.write(piece)
            # Checked before it gets its name: other workers of this machine take what has one for whole.
            if total.hexdigest() != digest:
                Path(partial).unlink()
                raise OSError(f"expected a file of SHA-256 {digest}, received {total.hexdigest()}; run again to resend it")
            # Trees share these files by links, so nothing may write into one.
            Path(partial).chmod(0o444)
            Path(partial).replace(place)

    def open(self, opener: str, stage: bytes) -> dict[str, Any]:
        """Enter the stage's folder, open a pickled stage by `opener`; return its identity.

        `opener` is MODULE:NAME. This replaces the machine's own `qualm` modules.
        """
        tree = self._tree()
        os.chdir(tree)
        sys.path.insert(0, str(tree / CODE))
        for name in [name for name in sys.modules if name.partition(".")[0] == "qualm"]:  # of this machine's own installation
            del sys.modules[name]
        shards = importlib.import_module("qualm.runners.inference.shards")
        self.work = shards.Shards(opener, *pickle.loads(stage))  # noqa: S301 - the driver's own
        return {**self.work.identity, "code": str(tree / CODE), "process": os.getpid()}

    def answer(self, shard: bytes) -> Any:
        """Answer one pickled shard; return its ShardAnswers: new store segments and counters."""
        _touch(Path.cwd())
        return self.work.answer(*pickle.loads(shard))  # noqa: S301 - the driver's own

    def _object(self, digest: str) -> Path:
        return self.home / "objects" / digest[:2] / digest[2:]

    def _tree(self) -> Path:
        """Return this stage's folder; if missing, hard-link its files into it and unzip the code."""
        listed = "\n".join(f"{digest} {path}" for path, digest in sorted(self.files.items()))
        tree = self.home / "trees" / hashlib.sha256(listed.encode()).hexdigest()
        if _touch(tree):
            return tree
        tree.parent.mkdir(exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=tree.parent))
        for path, digest in self.files.items():
            (partial / path).parent.mkdir(parents=True, exist_ok=True)
            # Hard links: trees of different stages share files, and a file's link count says whether any still uses it.
            os.link(self._object(digest), partial / path)
        with zipfile.ZipFile(partial / BUNDLE) as bundle:
            bundle.extractall(partial)
        try:
            partial.rename(tree)
        except OSError:
            shutil.rmtree(partial)
            if not tree.is_dir():  # otherwise another worker of this machine was first
                raise
        return tree


def _touch(path: Path) -> bool:
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _last_change(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another worker removed it
        return time.time()
