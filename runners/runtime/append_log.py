"""Append-only files of checksummed lines, on disk before they are used.

One journal (`qualm.runners.runtime.journal`) per process, so that any number of them may write at once, beneath one folder per kind of
content; each line is the SHA-256 of the rest, a space, and the rest. One that fails its checksum is as good as absent.
"""

from __future__ import annotations

import hashlib
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from qualm.registry.text import count
from qualm.runners.runtime.journal import Journal

_DIGEST = 64
T = TypeVar("T")


class LineLog:
    """Checksummed lines of one kind in a folder, one file per writing process."""

    def __init__(self, folder: Path, kind: str) -> None:
        """Set up the lines of one kind in a folder; nothing is opened or created yet.

        Args:
            folder: created by the first write.
            kind: suffix of the files, used in messages.
        """
        self.folder, self.kind = folder, kind
        self.damaged = 0
        """Number of truncated or changed lines, which are ignored."""
        self._journal: Journal | None = None

    def read(self, parse: Callable[[bytes], T]) -> Iterator[T]:
        """Yield the parsed content of valid lines, by file; count damaged ones, print a notice.

        Args:
            parse: a line's content; one that it refuses (ValueError, TypeError, KeyError, AttributeError) is as good as damaged.
        """
        self.damaged = 0
        for path in sorted(self.folder.glob(f"*.{self.kind}")):
            # Newlines alone part the lines: `splitlines` would also cut at a bare carriage return.
            for line in path.read_bytes().split(b"\n"):
                digest, body = line[:_DIGEST], line[_DIGEST + 1 :]
                if not line:
                    continue
                try:
                    if hashlib.sha256(body).hexdigest().encode() != digest:
                        raise ValueError
                    content = parse(body)
                # RecursionError: a line of ten thousand brackets with a right checksum is still only a bad line.
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                    self.damaged += 1
                else:
                    yield content
        if self.damaged:
            message = f"{count(self.damaged, 'damaged line')} ignored; what was stored there is computed again"
            print(f"{self.kind}: {self.folder}: {message}", file=sys.stderr, flush=True)

    def append(self, bodies: Sequence[bytes]) -> None:
        """Append lines with their checksums; they are on disk on return.

        Raises:
            OSError: the disk is full or cannot be written; all earlier lines stay readable.
        """
        if not bodies:
            return
        text = b"".join(hashlib.sha256(body).hexdigest().encode() + b" " + body + b"\n" for body in bodies)
        if self._journal is None:
            # A file for each process: appending to a shared one is not safe on network file systems.
            self._journal = Journal(self.folder / f"{time.time_ns():020d}-{uuid.uuid4().hex}.{self.kind}")
        self._journal.append(text)
