"""Files replaced atomically: written under another name in the same folder, then renamed.

A kill, a full disk or an error at any moment leaves the file that was there before; readers never see half of one. Every file of ours
that another process may read or that outlives a run is written here.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qualm.registry.machine import WINDOWS
from qualm.registry.system.disk_errors import DISK_FULL

PARTIAL = ".partial"
"""Ends the name of a file that is still being written; one that is left over belonged to a killed process."""
REPLACED = ".old-"
"""Begins the name of what a finished folder replaced, until it is deleted."""


def create_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def scratch_folder(folder: Path) -> Path:
    """Create and return `folder`, or if it cannot be written, a temporary folder instead.

    Where nothing can be written (a read-only file system), it is an empty folder among the system's temporary files, deleted when this
    process ends.
    """
    with suppress(OSError):
        if os.access(create_folder(folder), os.W_OK):
            return folder
    elsewhere = Path(tempfile.mkdtemp(prefix="qualm-"))
    atexit.register(shutil.rmtree, elsewhere, ignore_errors=True)
    return elsewhere


@contextmanager
def file(path: Path, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write; it replaces `path` after the block, or is deleted.

    Args:
        durable: whether the file must survive a power cut, not only a kill: its bytes and its name are on disk afterwards.

    Raises:
        OSError: the disk is full or cannot be written; `path` is as it was.
    """
    # In the same folder, since a rename is atomic only within one file system.
    partial = partial_path(path)
    try:
        create_folder(path.parent)
        yield partial
        if durable:
            _sync(partial)
        partial.replace(path)
        if durable and not WINDOWS:
            # The file is on disk, but its new name is only once its folder is. Windows lets nobody open a folder for this.
            _sync(path.parent)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and (error.filename == str(partial) or (error.filename is None and error.errno in DISK_FULL)):
            error.filename = str(path)  # a write names no file, and nobody looks for the partial one
        raise


def write_bytes(path: Path, data: bytes, durable: bool = False) -> None:
    """Replace a file's content atomically; on an error the old content stays."""
    with file(path, durable) as partial:
        partial.write_bytes(data)


def write_text(path: Path, text: str, durable: bool = False) -> None:
    """Replace a file's content atomically by a text in UTF-8, line ends unchanged."""
    write_bytes(path, text.encode(), durable)


def publish(finished: Path, target: Path) -> None:
    """Move file or folder `finished` to `target`, replacing what is there.

    A folder cannot be renamed onto another: what stands there is set aside beside `finished` (`REPLACED`) and deleted afterwards; a kill
    in between leaves it there. A file never takes the place of a folder.

    Raises:
        OSError: it cannot be moved; what stood there does so still.
    """
    create_folder(target.parent)
    finished = _move_beside(target, finished)
    if not (finished.is_dir() and os.path.lexists(target)):
        finished.replace(target)
        return
    old = finished.with_name(f"{REPLACED}{os.getpid()}-{target.name}")
    # Between these two renames the target is missing for a moment; no portable call swaps two folders.
    target.replace(old)
    try:
        finished.replace(target)
    except OSError:
        old.replace(target)
        raise
    shutil.rmtree(old, ignore_errors=True) if old.is_dir() and not old.is_symlink() else old.unlink()


def partial_path(path: Path) -> Path:
    """Return a new random hidden path in the folder of `path`, ending in `.partial`."""
    # Cut short: file systems allow 255 bytes for a name, and the suffix needs some of them.
    return path.with_name(f".{path.name[:100]}.{os.urandom(8).hex()}{PARTIAL}")


def _move_beside(target: Path, finished: Path) -> Path:
    """Move `finished` to the target's disk if it is on another; return its path."""
    if finished.stat().st_dev == target.parent.stat().st_dev:
        return finished
    near = partial_path(target)
    try:
        # Links stay links: a DVC checkout may be full of links into its cache, whose targets must not be copied.
        shutil.copytree(finished, near, symlinks=True) if finished.is_dir() else shutil.copy2(finished, near)
    except BaseException:
        shutil.rmtree(near, ignore_errors=True) if near.is_dir() else near.unlink(missing_ok=True)
        raise
    shutil.rmtree(finished) if finished.is_dir() else finished.unlink()
    return near


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)  # Windows syncs only what can be written
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
