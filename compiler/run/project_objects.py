"""List the objects of DVC's cache that a project names: now, at every commit, and in the records of the run cache.

Lists are hash -> one of its paths. Files that git keeps are not listed for now: a clone has them.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from qualm.registry.system.dvc_files import DvcStateError, cache_folder, parse_dvc_file, parse_lock, read_run
from qualm.registry.system.dvc_objects import listing
from qualm.registry.system.git import file_contents, git
from qualm.registry.system.textfiles import is_file, read_bytes

HISTORY = ("log", "--exclude=refs/exps/*", "--exclude=refs/stash", "--all", "--full-history", "-m", "--no-renames", "--format=")
"""Log of all commits of branches, tags and remotes, every side of every merge, without DVC's experiments."""


def objects_now(root: Path) -> dict[str, str]:
    """Return {MD5: path} of the DVC objects that a clone of this commit needs."""
    tracked, objects = tracked_files(root), dict[str, str]()
    for name in sorted(tracked):
        if records_hashes(name) and is_file(root / name):
            objects |= _objects(name, read_bytes(root / name), tracked)
    return objects


def objects_of_history(root: Path) -> tuple[dict[str, str], set[str]]:
    """Return ({MD5: path} of objects of all commits, DVC files that cannot be read)."""
    changes = git(root, *HISTORY, "--raw", "--no-abbrev", "-z", "--", ":(top,glob)**/dvc.lock", ":(top,glob)**/*.dvc").split("\0")
    names = {change.split()[3]: name for change, name in zip(changes[::2], changes[1::2], strict=False)}
    objects, unreadable = dict[str, str](), set[str]()
    for blob, content in file_contents(root, [blob for blob in names if blob.strip("0")]):
        try:
            objects |= _objects(names[blob], content)
        except DvcStateError:
            unreadable.add(names[blob])
    return objects, unreadable


def objects_of_runs(root: Path) -> dict[str, str]:
    """Return {MD5: path} of the objects that DVC's run cache here restores."""
    objects: dict[str, str] = {}
    for file in sorted((cache_folder(root) / "runs").glob("*/*/*")):
        with suppress(DvcStateError):  # DVC ignores damaged records too
            objects |= _named(read_run(file).get("outs") or [])
    return objects


def with_files(objects: Mapping[str, str], *stores: Path) -> dict[str, str]:
    """Return `objects` and {MD5: path} of the files in folders, as `stores` list them."""
    files: dict[str, str] = {}
    for md5, path in objects.items():
        if md5.endswith(".dir"):
            listed = next((found for store in stores if (found := listing(store, md5)) is not None), {})
            files |= {hashed: f"{path}/{name}" for name, hashed in listed.items()}
    return {**files, **objects}


def records_hashes(name: str) -> bool:
    return name.endswith(".dvc") or name.rsplit("/", 1)[-1] == "dvc.lock"


def tracked_files(root: Path) -> set[str]:
    return set(git(root, "ls-files", "-z").split("\0")) - {""}


def ever_tracked(root: Path) -> set[str]:
    """Return the paths of all files that any commit added, even if deleted later."""
    return set(git(root, *HISTORY, "--diff-filter=A", "--name-only", "-z").replace("\n", "\0").split("\0")) - {""}


def _objects(name: str, content: bytes, in_git: Collection[str] = ()) -> dict[str, str]:
    if not name.endswith(".dvc"):
        outs = [out for entry in parse_lock(content, name).values() for out in entry.get("outs", [])]
        return _named(out for out in outs if out["path"] not in in_git)
    file = parse_dvc_file(content, name)
    if any("repo" in dep for dep in file.get("deps") or []):  # an import is fetched from its source
        return {}
    return _named(file["outs"], name.rpartition("/")[0])


def _named(outs: Iterable[Mapping[str, Any]], folder: str = "") -> dict[str, str]:
    kept = (out for out in outs if out.get("md5") and out.get("push") is not False)
    return {str(out["md5"]): PurePosixPath(folder, out["path"]).as_posix() for out in kept}
