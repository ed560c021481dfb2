"""Append-only files of lines, one writer each.

A kill or a full disk leaves at most half a line at the end. Readers ignore it, and the next writer removes it.
"""

import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from qualm.registry.system.locks import ProcessLock


class Journal:
    """Append-only file of lines with a lock; the first append creates file and folder.

    Args:
        path: its folder is created by the first append.
        durable: lines survive a power cut, not only a kill.
    """

    def __init__(self, path: Path, durable: bool = True) -> None:
        self.path, self._durable = path, durable
        self._lock = ProcessLock(path.with_name(f"{path.name}.lock"))

    def append(self, lines: bytes) -> None:
        """Append whole lines; on return they are on disk if the journal is durable.

        Raises:
            OSError: the disk is full or not writable; earlier lines stay readable.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+", buffering=0) as file:
            # Before each append, as another writer may have died meanwhile.
            self._cut_half_a_line(file)
            rest = memoryview(lines)
            # A write may be partial, for example on a nearly full disk.
            while rest:
                rest = rest[os.write(file.fileno(), rest) :]
            if self._durable:
                os.fsync(file.fileno())

    def append_row(self, fields: Sequence[str]) -> None:
        """Append one row of a CSV table; see `append`."""
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\r\n").writerow(fields)  # otherwise fields with a carriage return are not quoted
        self.append(text.getvalue().removesuffix("\r\n").encode() + b"\n")

    def content(self) -> bytes:
        """Return all complete lines as bytes; empty if the file does not exist."""
        content = self.path.read_bytes() if self.path.exists() else b""
        # Without a newline rfind is -1, and nothing remains.
        return content[: content.rfind(b"\n") + 1]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield (line number from 1, fields) of the complete lines of a CSV table."""
        yield from enumerate(csv.reader(io.StringIO(self.content().decode(), newline="")), 1)

    def hold(self) -> bool:
        """Lock the file until `close`, without waiting; return False if another process holds it."""
        return self._lock.acquire()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait for the file's lock and hold it within this context."""
        self._lock.acquire(wait=True)
        try:
            yield
        finally:
            self._lock.release()

    def close(self) -> None:
        """Release the lock that `hold` acquired."""
        self._lock.release()

    def _cut_half_a_line(self, file: FileIO) -> None:
        if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
            file.truncate(len(self.content()))
