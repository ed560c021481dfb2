"""Versions of data: the content of an entry or dataset at any revision.

`NAME` or `PATH` is the working tree; `@REVISION` after it is git's record there, `@DIGEST` a version that `qualm data ls` has shown.
Files of a version that is not in the working tree are read from DVC's cache, or from a remote that is a folder on this disk.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from qualm.registry.entries.entries import DATA, EntryError, find
from qualm.registry.system.dvc_files import DvcStateError, cache_folder, local_remote, parse_dvc_file, parse_lock
from qualm.registry.system.dvc_objects import folder_md5, hash_files, is_damaged, listing, object_path
from qualm.registry.system.git import output, refusal
from qualm.registry.system.textfiles import is_file, read_text

_DIGEST = 6
"""Characters from which on a digest is taken for one."""


@dataclass(frozen=True)
class Version:
    """The files of an entry or output folder at a revision, and where they are."""

    label: str
    """Version as it was requested."""
    name: str
    """Name of the entry, or its path from the project's root."""
    md5: str
    files: Mapping[str, str]
    """Path in it -> MD5."""
    card: str | None
    folder: Path | None
    """Folder with all files; None if only a store has them."""
    stores: tuple[Path, ...] = ()

    @property
    def _tracked(self) -> str:
        """Return the path from the project's root by which DVC tracks the version."""
        return self.name if "/" in self.name else f"{DATA}/{self.name}"

    def file(self, name: str) -> Path:
        """Return a file's path; EntryError if DVC's cache and remote lack it or hold it damaged.

        The files of a version in the working tree are not checked.
        """
        if self.folder is not None:
            return self.folder / name
        for store in self.stores:
            if (path := object_path(store, self.files[name])).is_file():
                if is_damaged(path, self.files[name]):
                    raise EntryError(
                        f"{self.label}: {name} is damaged in DVC's cache: {path}; remove that file and `dvc fetch {self._tracked}`"
                    )
                return path
        raise EntryError(
            f"{self.label}: {name} is not in DVC's cache; `git checkout` that revision and `dvc fetch {self._tracked}`, then try again"
        )

    @contextmanager
    def laid_out(self, beneath: Path) -> Iterator[Path]:
        """Yield a folder with all files; a temporary one below `beneath` is deleted after."""
        if self.folder is not None:
            yield self.folder
            return
        with tempfile.TemporaryDirectory(dir=beneath, prefix="version-") as scratch:
            for name in self.files:
                target = Path(scratch) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                source = self.file(name)
                try:
                    os.link(source, target)
                except OSError:  # another file system
                    shutil.copyfile(source, target)
            yield Path(scratch)


def find_version(root: Path, text: str) -> Version:
    """Return the version that "NAME@REVISION" or "NAME" names; else EntryError."""
    whole = _working(root, text)
    if whole is not None:
        return whole
    name, at, when = text.rpartition("@")
    if not at:
        find(root, text)  # says what there is
        raise EntryError(f"{text}: has never been added; `qualm data add {text} --from PATH`")
    place, is_entry = _place(root, name)
    md5 = _recorded(root, place, is_entry, when)
    stores = tuple(s for s in (cache_folder(root), local_remote(root)) if s is not None)
    files = {Path(place).name: md5} if not md5.endswith(".dir") else next((f for s in stores if (f := listing(s, md5)) is not None), None)
    if files is None:
        raise EntryError(
            f"{text}: version {md5[:10]} is on record, but the list of its files is in neither DVC's cache nor a remote on this disk; "
            f"check out that revision and run `dvc fetch {place}`"
        )
    return Version(text, name if is_entry else place, md5, files, _card(root, name) if is_entry else None, None, stores)


def _working(root: Path, text: str) -> Version | None:
    """Return the version in the working tree, or an absent entry's recorded one; else None."""
    place, is_entry = _place(root, text)
    folder = root / place
    if folder.is_dir():
        files = hash_files(root, folder)
        return Version(text, text if is_entry else place, folder_md5(files), files, _card(root, text) if is_entry else None, folder)
    if is_entry and (root / f"{place}.dvc").is_file():
        return find_version(root, f"{text}@{find(root, text).md5}")
    return None


def _place(root: Path, name: str) -> tuple[str, bool]:
    """Return (path from root, True if an entry's name); EntryError if outside of the root."""
    if name and "/" not in name and ((root / DATA / f"{name}.dvc").is_file() or not (Path.cwd() / name).exists()):
        return str(DATA / name), True
    try:
        return (Path.cwd() / name).resolve().relative_to(root.resolve()).as_posix(), False
    except ValueError:
        raise EntryError(f"{name}: lies outside of {root}; data are compared within one project") from None


def _card(root: Path, name: str) -> str | None:
    try:
        return find(root, name).card
    except EntryError:
        return None


def _recorded(root: Path, place: str, is_entry: bool, when: str) -> str:
    """Return the MD5 of a path at a revision or by digest prefix `when`; else EntryError."""
    files = _recording_files(place, is_entry)
    commit = output(root, "rev-parse", "--verify", "--quiet", f"{when}^{{commit}}")
    if commit is not None:
        digest = _digest_at(root, place, files, commit.strip())
        if digest is None:
            raise EntryError(f"{place}: nothing on record at {when}; it was not tracked there, or had another name")
        return digest
    if refused := refusal(root):
        raise EntryError(f"{place}: '{when}' cannot be looked up: {refused}")
    if len(when) < _DIGEST or not set(when.lower().removesuffix(".dir")) <= set("0123456789abcdef"):
        raise EntryError(
            f"'{when}' is neither a git revision here nor a digest of at least {_DIGEST} characters; "
            + ("`qualm data ls` shows the present one" if is_entry else "dvc.lock records digests")
        )
    now = (_digest(read_text(root / file), place, file) for file in files if is_file(root / file))
    commits = (output(root, "log", "--all", "--format=%H", "--", *files) or "").split()
    digests = {md5 for md5 in (*now, *(_digest_or_none(root, place, files, past) for past in commits)) if md5}
    matching = sorted(md5 for md5 in digests if md5.startswith(when.lower()))
    if len(matching) != 1:
        what = "fits no version" if not matching else f"fits {len(matching)} versions"
        raise EntryError(f"'{when}' {what} of {place}; git has on record: {', '.join(sorted(md5[:10] for md5 in digests)) or 'none'}")
    return matching[0]


def _recording_files(place: str, is_entry: bool) -> list[str]:
    """Return the paths of the files that may record a path's MD5: `.dvc` or dvc.lock."""
    parts = place.split("/")
    nested = [f"specs/{parts[1]}/dvc.lock"] if parts[0] == "results" and len(parts) > 2 else []
    return [f"{place}.dvc"] if is_entry else [*nested, "dvc.lock"]


def _digest_or_none(root: Path, place: str, files: list[str], commit: str) -> str | None:
    """Return a path's MD5 at a commit; None if not recorded or damaged."""
    try:
        return _digest_at(root, place, files, commit)
    except DvcStateError:
        return None


def _digest_at(root: Path, place: str, files: list[str], commit: str) -> str | None:
    for file in files:
        text = output(root, "show", f"{commit}:{file}")
        if text is not None and (md5 := _digest(text, place, f"{file} at {commit[:10]}")) is not None:
            return md5
    return None


def _digest(text: str, place: str, where: str) -> str | None:
    """Return the MD5 in the text of file `where`: a `.dvc`, or `place` in a dvc.lock; or None."""
    if where.split(" at ")[0].endswith(".dvc"):
        return next((out["md5"] for out in parse_dvc_file(text, where)["outs"] if out.get("md5")), None)
    outs = [out for stage in parse_lock(text, where).values() for out in stage.get("outs", [])]
    return next((out["md5"] for out in outs if out["path"] == place and out.get("md5")), None)
