"""Journals: files of lines that are only ever appended to, by one writer each, so that a kill costs the line in flight and no other.

A kill or a full disk leaves half a line at the end at most. Readers do not see it, and the next writer cuts it off before it appends.
"""

import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from qualm.registry.formats.locks import ProcessLock


class Journal:
    """One file of lines. Nothing is opened or made until something is appended."""

    def __init__(self, path: Path, durable: bool = True) -> None:
        """Name the file.

        Args:
            path: where; its folder is made when something is first appended.
            durable: whether what was appended must survive a power cut, not only a kill.
        """
        self.path, self._durable = path, durable
        self._lock = ProcessLock(path.with_name(f"{path.name}.lock"))

    def append(self, lines: bytes) -> None:
        """Write whole lines at the end, on disk when this returns.

        Raises:
            OSError: the disk is full or cannot be written; all earlier lines stay readable.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+", buffering=0) as file:
            # Before each append: another writer may have died in the middle of a line since.
            self._cut_half_a_line(file)
            rest = memoryview(lines)
            # A write may take only a part, on a nearly full disk for one.
            while rest:
                rest = rest[os.write(file.fileno(), rest) :]
            if self._durable:
                os.fsync(file.fileno())

    def append_row(self, fields: Sequence[str]) -> None:
        """Append one line of a CSV table; see `append`."""
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\r\n").writerow(fields)  # or a field with a carriage return would not be quoted
        self.append(text.getvalue().removesuffix("\r\n").encode() + b"\n")

    def content(self) -> bytes:
        """All whole lines; nothing where there is no file."""
        content = self.path.read_bytes() if self.path.exists() else b""
        # Without any newline rfind is -1, and so nothing is left: that is half a first line.
        return content[: content.rfind(b"\n") + 1]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The whole lines of a CSV table, numbered from 1."""
        yield from enumerate(csv.reader(io.StringIO(self.content().decode(), newline="")), 1)

    def hold(self) -> bool:
        """Keep every other holder out until `close`; False where there is one. The kernel lets go when the holder dies."""
        return self._lock.acquire()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Be the only one that reads and appends within this; waits for its turn. The kernel ends the turn of whoever dies."""
        self._lock.acquire(wait=True)
        try:
            yield
        finally:
            self._lock.release()

    def close(self) -> None:
        """Let other holders in."""
        self._lock.release()

    def _cut_half_a_line(self, file: FileIO) -> None:
        if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
            file.truncate(len(self.content()))
