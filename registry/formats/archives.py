"""Unpacking of untrusted archives: nothing outside the folder, no links, no bombs."""

import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
RATIO, FREE = 500, 256 * 2**20
"""An archive that unpacks to more than so many times its size is refused, beyond this many bytes."""
MAX_TINY_MEMBERS, MIN_MEMBER_BYTES = 20_000, 16
"""Beyond this many members, each takes at least so many bytes of the archive: no packer names a file in fewer."""
JUNK = ("__MACOSX/",)
MAX_LINES = 5
_IF_TRUSTED = ": if you trust it, unpack it yourself and give the folder"
_DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, OSError, RuntimeError, NotImplementedError, EOFError, ValueError
)  # fmt: skip


class ArchiveError(Exception):
    """Error of a refused or damaged archive; the message names members and reason."""


@dataclass(frozen=True)
class _Member:
    name: str
    size: int
    open: Callable[[], IO[bytes] | None]


def is_archive(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES)


def check_zip(path: Path) -> int:
    """Read a zip's members without unpacking; return their number, or raise ArchiveError."""
    members = list(_check_members(path, None))
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except _DAMAGED as error:
        raise ArchiveError(f"damaged: {error}; fetch it again") from error
    if damaged is not None:
        raise ArchiveError(f"damaged: {damaged!r} does not match its checksum; fetch it again")
    return len(members)


def unpack(
    path: Path,
    folder: Path,
    progress: Callable[[str, int], None],
    skip: Callable[[str], None] | None = None,
    is_wanted: Callable[[str], bool] = lambda name: True,
) -> list[str]:
    """Unpack wanted members into the empty `folder`; return unwanted names; else ArchiveError.

    Args:
        skip: receives members that are refused, which are then left out; None refuses the whole.
        is_wanted: says whether a member of this name is wanted.

    Raises:
        ArchiveError: it is damaged or claims too much, or members would lie outside the folder, are links, or come twice.
    """
    others, folders = [], {folder}
    for member in _check_members(path, skip):
        if not is_wanted(member.name):
            others.append(member.name)
            continue
        target = folder / member.name
        try:
            if target.parent not in folders:
                target.parent.mkdir(parents=True, exist_ok=True)
                folders.add(target.parent)
            with target.open("xb") as writing:
                reading = member.open()
                if reading is None:
                    raise ArchiveError(f"{member.name!r}: cannot be read; fetch the archive again")
                with reading:
                    shutil.copyfileobj(_Bounded(reading, member), writing, 1 << 20)
        except _DAMAGED as error:
            raise ArchiveError(f"{member.name!r}: damaged: {error}; fetch the archive again") from error
        progress(member.name, member.size)
    return others


class _Bounded:
    def __init__(self, reading: IO[bytes], member: _Member) -> None:
        self._reading, self._left, self._name = reading, member.size, member.name

    def read(self, size: int = -1, /) -> bytes:
        chunk = self._reading.read(size)
        self._left -= len(chunk)
        if self._left < 0:
            raise ArchiveError(f"{self._name!r}: unpacks to more than its archive says and is refused; fetch the archive again")
        return chunk


class _Claims:
    """Running total of an archive's declared sizes; raises ArchiveError for a likely bomb.

    Counted member by member, so that a bomb is refused before it is read on.
    """

    def __init__(self, packed: int) -> None:
        self._packed, self._size, self._members = max(packed, 1), 0, 0

    def add(self, size: int) -> None:
        self._size, self._members = self._size + max(size, 0), self._members + 1
        if self._size > max(FREE, RATIO * self._packed):
            raise ArchiveError(
                f"unpacks to {self._size:,} bytes, {self._size // self._packed:,} times its size, or more; it is refused{_IF_TRUSTED}"
            )
        if self._members > max(MAX_TINY_MEMBERS, self._packed // MIN_MEMBER_BYTES):
            raise ArchiveError(f"has {self._members:,} members or more in {self._packed:,} bytes; it is refused{_IF_TRUSTED}")


def _check_members(path: Path, skip: Callable[[str], None] | None) -> Iterator[_Member]:
    """Yield an archive's valid files once all are checked; pass faults to `skip`, or raise."""
    try:
        with zipfile.ZipFile(path) if path.name.lower().endswith(".zip") else tarfile.open(path) as archive:
            claims = _Claims(path.stat().st_size)
            members, problems = _zip(archive, claims) if isinstance(archive, zipfile.ZipFile) else _tar(archive, claims)
            yield from _valid_members(members, problems, skip)
    except _DAMAGED as error:
        raise ArchiveError(f"not a whole archive: {error}; fetch it again") from error


def _valid_members(members: list[_Member], problems: list[str], skip: Callable[[str], None] | None) -> Iterator[_Member]:
    good: dict[str, _Member] = {}
    for member in members:
        if problem := _refused(member.name):
            problems.append(problem)
        elif member.name in good:
            problems.append(f"{member.name!r}: is in the archive twice")
        else:
            good[member.name] = member
    if problems and skip is None:
        more = f"; {len(problems) - MAX_LINES:,} more" if len(problems) > MAX_LINES else ""
        raise ArchiveError("; ".join(problems[:MAX_LINES]) + more)
    for problem in problems if skip is not None else ():
        skip(problem)  # type: ignore[misc]
    yield from good.values()


def _refused(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or (len(name) > 1 and name[1] == ":"):
        return f"{name!r}: leads out of the archive; such a member is never unpacked"
    if not name.isprintable():
        return f"{name!r}: a name with control characters"
    return ""


def _zip(archive: zipfile.ZipFile, claims: _Claims) -> tuple[list[_Member], list[str]]:
    members, problems = [], []
    for info in archive.infolist():
        claims.add(info.file_size)
        if info.is_dir() or info.filename.startswith(JUNK):
            continue
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            problems.append(f"{info.filename!r}: a link or device; only files are unpacked")
        elif info.flag_bits & 1:
            problems.append(f"{info.filename!r}: encrypted")
        else:
            members.append(_Member(info.filename, info.file_size, lambda info=info: archive.open(info)))  # type: ignore[misc]
    return members, problems


def _tar(archive: tarfile.TarFile, claims: _Claims) -> tuple[list[_Member], list[str]]:
    members, problems = [], []
    for info in archive:
        claims.add(info.size)
        if info.isdir():
            continue
        name = info.name.removeprefix("./")
        if info.isfile():
            members.append(_Member(name, info.size, lambda info=info: archive.extractfile(info)))  # type: ignore[misc]
        else:
            problems.append(f"{name!r}: a link or device; only files are unpacked")
    _check_end(archive, members)
    return members, problems


def _check_end(archive: tarfile.TarFile, members: list[_Member]) -> None:
    """Raise ArchiveError unless a tar ends with zeros; read it to its end.

    Python takes a damaged header, or a cut between two members, for the end, so members may be lost.
    """
    assert archive.fileobj is not None
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        behind = f"behind {members[-1].name!r}" if members else "at its beginning"
        raise ArchiveError(f"not a whole archive: cut or damaged {behind}; fetch it again")
    while archive.fileobj.read(1 << 20):  # to the end, where compressed ones have their checksum
        pass
