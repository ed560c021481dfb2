"""List, send, fetch and remove the objects of a DVC remote, of whatever kind."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from qualm.registry.system.dvc_files import dvc_errors


class RemoteStore:
    """Context manager for a DVC remote; holds the checkout's DVC lock.

    Every method may raise DvcStateError.
    """

    def __init__(self, root: Path, name: str) -> None:
        for library in ("dvc", "dvc_data"):
            logging.getLogger(library).addHandler(logging.NullHandler())  # or Python prints what DVC meant for a log
        advice = f"`dvc push -r {name} -v` says more; docs/how-to/sharing.md has recipes"
        self._errors = partial(dvc_errors, f"remote '{name}'", advice)
        self._name = name
        with self._errors():
            from dvc.repo import Repo

            self._repo: Any = Repo(str(root))
            self._odb: Any = self._repo.cloud.get_remote_odb(name, "push")

    def __enter__(self) -> RemoteStore:
        with self._errors():
            self._repo.lock.lock()
        return self

    def __exit__(self, *_: object) -> None:
        self._repo.lock.unlock()
        self._repo.close()

    def has(self, hashes: Collection[str]) -> set[str]:
        """Return the subset of MD5s under which the remote has an object; contents are unread."""
        with self._errors():
            return set(self._odb.oids_exist(set(hashes))) if hashes else set()

    def put(self, hashes: Collection[str]) -> set[str]:
        """Send objects from the cache to the remote; return the MD5s that failed.

        What has arrived of a failed object is deleted from the remote. Folders are sent after their files.
        """
        before = self._unfinished()
        failed = self._transfer(hashes, self._repo.cache.local, self._odb, "sending to")
        for file in self._unfinished() - before if failed else ():  # on a full disk they are in the way
            file.unlink(missing_ok=True)
        for md5 in self.has(failed):  # half an object, where the remote is written to under the object's own name, as by SSH
            self.remove(md5)
        return failed

    def get(self, hashes: Iterable[str]) -> None:
        """Fetch objects that the remote has into the cache, verified; skip the others.

        Of a folder only its list of files is fetched.
        """
        self._transfer(self.has(set(hashes)), self._odb, self._repo.cache.local, "fetching from", verify=True)

    def put_runs(self) -> int | None:
        """Send the run cache's records; return their number, None if not supported."""
        from dvc.stage.cache import RunCacheNotSupported

        with self._errors():
            try:
                return len(self._repo.stage_cache.push(self._name))
            except RunCacheNotSupported:
                return None

    def remove(self, md5: str) -> None:
        """Delete the object with this MD5 from the remote.

        DVC replaces none that is there by name.
        """
        with self._errors():
            self._odb.fs.remove(self._odb.oid_to_path(md5))

    def _unfinished(self) -> set[Path]:
        """Return the temporary files of broken uploads in a local remote; else empty."""
        return set(Path(self._odb.path).glob("*/.*.tmp")) if self._odb.fs.protocol == "local" else set()

    def _transfer(self, hashes: Collection[str], source: Any, target: Any, doing: str, **options: Any) -> set[str]:
        if not hashes:
            return set()
        from dvc.fs.callbacks import TqdmCallback
        from dvc_data.hashfile.hash_info import HashInfo

        objects = [HashInfo("md5", md5) for md5 in sorted(hashes)]
        with self._errors(), TqdmCallback(desc=f"{doing} {self._name}", unit="file") as bar:
            done = self._repo.cloud.transfer(source, target, objects, cache_odb=self._repo.cache.local, callback=bar, **options)
        return {str(found.value) for found in done.failed}
