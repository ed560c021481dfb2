"""Locks between processes. The system releases a lock when its holder ends, however it ends, so no stale lock can remain."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from qualm.registry.system import atomic, textfiles

if TYPE_CHECKING:
    from filelock import BaseFileLock


class ProcessLock:
    """A lock, identified by a path, that only one process can hold at a time."""

    def __init__(self, path: Path) -> None:
        """Set the lock's path; acquire nothing yet."""
        self.path = path
        self._lock: BaseFileLock | None = None

    def acquire(self, holder: str = "", wait: bool = False) -> bool:
        """Try to acquire the lock; return whether it was; with `wait`, block until it is.

        Args:
            holder: shown to others while this process holds the lock.
            wait: until the current holder releases it, instead of returning False.
        """
        from filelock import FileLock, Timeout  # takes 30 ms to import

        atomic.create_folder(self.path.parent)
        lock = FileLock(self.path, thread_local=False)  # another thread may release it
        try:
            lock.acquire(blocking=wait)
        except Timeout:
            return False
        self._lock = lock
        if holder:
            atomic.write_text(self._note, holder)
        return True

    @contextmanager
    def hold(self, refused: Exception) -> Iterator[None]:
        """Hold the lock for the block; raise `refused` if another process has it."""
        if not self.acquire():
            raise refused
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Release the lock if this process holds it."""
        if self._lock is not None:
            self._note.unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    @property
    def holder(self) -> str:
        """Return the text that the present holder, or a killed one, gave to `acquire`; or ""."""
        try:
            return textfiles.read_text(self._note, 1 << 16).strip()
        except textfiles.TextFileError:
            return ""

    @property
    def _note(self) -> Path:
        return self.path.with_name(f"{self.path.name}.holder")
