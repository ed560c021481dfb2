"""A DVC remote as a store of objects: listing them, adding some, removing damaged ones.

A thin layer over DVC, which knows how to speak to folders, SSH, S3, WebDAV and the rest.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class RemoteError(Exception):
    """The remote could not be used: which, and what it said."""


class RemoteStore:
    """One remote of a checkout. Use it as a context: it holds DVC's lock of the checkout meanwhile."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        logging.getLogger("dvc").addHandler(logging.NullHandler())  # or Python prints what DVC meant for a log
        logging.getLogger("dvc_data").addHandler(logging.NullHandler())
        from dvc.repo import Repo

        with self._remote_errors():
            self._repo: Any = Repo(str(root))
            self._odb: Any = self._repo.cloud.get_remote_odb(name, "push")

    def __enter__(self) -> RemoteStore:
        with self._remote_errors():
            self._repo.lock.lock()
        return self

    def __exit__(self, *_: object) -> None:
        self._repo.lock.unlock()
        self._repo.close()

    def has(self, hashes: Collection[str]) -> set[str]:
        """Those of the hashes whose object is there, by name: asked now, never remembered."""
        with self._remote_errors():
            return set(self._odb.oids_exist(set(hashes))) if hashes else set()

    def put(self, hashes: Collection[str]) -> set[str]:
        """Send objects of the cache that the remote lacks, folders after their files; those that failed."""
        if not hashes:
            return set()
        from dvc.fs.callbacks import TqdmCallback
        from dvc_data.hashfile.hash_info import HashInfo
        from dvc_data.hashfile.transfer import transfer

        objects, cache = [HashInfo("md5", h) for h in sorted(hashes)], self._repo.cache.local
        with self._remote_errors(), self._tidied(), TqdmCallback(desc=f"sending to {self.name}", unit="file") as bar:
            result = transfer(cache, self._odb, objects, cache_odb=cache, callback=bar)
        failed = {str(h.value) for h in result.failed}
        if failed and self._odb.fs.protocol != "local":  # written under its own name, such as by SSH, half an object may be there
            for md5 in self.has(failed):
                self.remove(md5)
        return failed

    def get(self, hashes: Iterable[str]) -> None:
        """Bring objects that the remote has into the cache, hashed anew; a folder without its files."""
        there = self.has(set(hashes))
        if not there:
            return
        from dvc.fs.callbacks import TqdmCallback
        from dvc_data.hashfile.hash_info import HashInfo
        from dvc_data.hashfile.transfer import transfer

        objects, cache = [HashInfo("md5", h) for h in there], self._repo.cache.local
        with self._remote_errors(), TqdmCallback(desc=f"fetching from {self.name}", unit="file") as bar:
            transfer(self._odb, cache, objects, cache_odb=cache, verify=True, callback=bar)

    def put_runs(self) -> int | None:
        """Send the records of the run cache; how many. None where a remote of this kind cannot keep any."""
        from dvc.stage.cache import RunCacheNotSupported

        with self._remote_errors():
            try:
                return len(self._repo.stage_cache.push(self.name))
            except RunCacheNotSupported:
                return None

    def remove(self, md5: str) -> None:
        """Take one object away, such as a damaged one: DVC replaces none that is there by name."""
        with self._remote_errors():
            self._odb.fs.remove(self._odb.oid_to_path(md5))

    @contextmanager
    def _tidied(self) -> Iterator[None]:
        """Take away what DVC leaves half-written in a remote on this disk, such as a full one; files of other senders stay."""
        import dvc_objects.fs.local

        local: Any = dvc_objects.fs.local
        own, numbers, named = f".qualm-{secrets.token_hex(8)}", itertools.count(), local.tmp_fname
        local.tmp_fname = lambda prefix="": f"{prefix}{own}.{next(numbers)}.tmp"
        try:
            yield
        finally:
            local.tmp_fname = named
            if self._odb.fs.protocol == "local":
                for left in Path(self._odb.path).glob(f"*/{own}.*.tmp"):
                    left.unlink(missing_ok=True)

    @contextmanager
    def _remote_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # every kind of remote fails in a way of its own
            what = str(error).strip() or type(error).__name__
            raise RemoteError(f"remote '{self.name}': {what}") from error
