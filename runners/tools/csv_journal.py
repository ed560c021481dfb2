"""A CSV that is only ever appended to, each line on disk before the next thing happens: what people decide survives any kill."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO


def append(file: IO[bytes], fields: Sequence[str]) -> None:
    """One line, synced.

    Raises:
        OSError: it is not kept.
    """
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(fields)
    file.write(text.getvalue().encode())
    file.flush()
    os.fsync(file.fileno())


def lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The complete lines with their numbers; nothing where the file is not there."""
    data = path.read_bytes() if path.exists() else b""
    text = data[: data.rfind(b"\n") + 1].decode("utf-8")
    yield from enumerate(csv.reader(io.StringIO(text, newline="")), 1)


def mend(path: Path) -> None:
    """Cut off the line that a kill left half written."""
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        os.truncate(path, data.rfind(b"\n") + 1)
