"""Scores kept by the content that they were made of, with a bound on what they take.

Of each there are two blobs (`qualm.runners.store.blobs`): its rows, and the draws of its values, which are read only where a ranking is
made anew. What was not asked for longest goes first when the folder outgrows its bound; a loss costs time, never a value.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.runners.runtime.stage import StageError
from qualm.runners.store.blobs import BlobCache

BOUND = 4 * 2**30
"""Bytes."""
RECENT = 3600
"""Seconds for which what was used is not removed: another stage may be about to read it."""
Draws = NDArray[np.float32]


@dataclass(frozen=True)
class KeptScores:
    """The rows of one metric on one cell, and where its draws are."""

    key: str
    rows: pa.Table
    _cache: BlobCache

    def draws(self, times: int) -> Draws:
        """(k, times): those of the rows that have any, in their order.

        Raises:
            StageError: they were damaged or removed since the rows were read.
        """
        if (raw := self._cache.get(_draws(self.key))) is None:
            raise StageError(f"{self._cache.path(_draws(self.key))}: resamples of scores are gone or damaged; run the stage again")
        return np.frombuffer(raw, np.float32).reshape(-1, times)


class ScoreStore:
    """Those of one version of the code and one level of intervals."""

    def __init__(self, *identity: Any, root: Path | None = None) -> None:
        """`identity` is what all of them depend on, as JSON."""
        self._cache = BlobCache("scores", *identity, root=root)

    def key(self, *material: Any) -> str:
        """Of digests and names, as JSON."""
        return self._cache.key(*material)

    def get(self, key: str) -> KeptScores | None:
        """None unless rows and draws both are there."""
        if not self.has(key) or (raw := self._cache.get(key)) is None:
            return None
        for path in self._paths(key):
            _touch(path)
        with pa.ipc.open_stream(raw) as reader:
            return KeptScores(key, reader.read_all(), self._cache)

    def has(self, key: str) -> bool:
        """Whether there are rows and draws; not whether they are whole."""
        return all(path.is_file() for path in self._paths(key))

    def _paths(self, key: str) -> list[Path]:
        return [self._cache.path(key), self._cache.path(_draws(key))]

    def put(self, key: str, rows: pa.Table, draws: Draws) -> KeptScores:
        """Keep rows, and the draws of those that have any.

        Raises:
            StageError: the disk is full or cannot be written to.
        """
        # Not durable: scores can always be made again, and an fsync for each costs more than most metrics.
        self._cache.put(_draws(key), np.ascontiguousarray(draws, dtype=np.float32).tobytes(), durable=False)
        self._cache.put(key, _stream(rows), durable=False)
        return KeptScores(key, rows, self._cache)

    def get_table(self, key: str) -> pa.Table | None:
        """A table by itself, as rankings have it."""
        if (raw := self._cache.get(key)) is None:
            return None
        _touch(self._cache.path(key))
        with pa.ipc.open_stream(raw) as reader:
            return reader.read_all()

    def put_table(self, key: str, table: pa.Table) -> None:
        """Keep a table by itself."""
        self._cache.put(key, _stream(table), durable=False)

    def trim(self, bound: int = BOUND) -> int:
        """Remove what was not used for longest until the rest takes no more than `bound` bytes; how many files that were."""
        entries = []
        for path in self._cache.folder.glob("*/*"):
            try:
                stat = path.stat()
            except FileNotFoundError:  # another stage removed it
                continue
            entries.append((stat.st_mtime, stat.st_size, path))
        total, removed = sum(size for _, size, _ in entries), 0
        for used, size, path in sorted(entries, key=lambda e: e[0]):
            # Sorted by last use, so everything after a recent one is recent too.
            if total <= bound or time.time() - used < RECENT:
                break
            path.unlink(missing_ok=True)
            total, removed = total - size, removed + 1
        return removed


def content_digest(value: Any, leave_out: frozenset[str] = frozenset()) -> str:
    """Digest of numbers, texts, arrays, mappings in their order, sequences and dataclasses of such, to the last bit.

    Fields of dataclasses that begin with an underscore hold what was computed from the others, and do not count; nor do `leave_out`, of the
    outermost one. What has a list `content` counts by that alone.

    Raises:
        TypeError: it holds something else, of which it is not known what counts.
    """
    digest = sha256()
    for piece in _pieces(value, leave_out):
        # Lengths in front keep ["ab", "c"] and ["a", "bc"] apart.
        digest.update(len(piece).to_bytes(8) + piece)
    return digest.hexdigest()


def _pieces(value: Any, leave_out: frozenset[str] = frozenset()) -> Any:
    # The type is part of the text: 1, 1.0, True and "1" are four different settings.
    if value is None or isinstance(value, bool | int | float | str):
        yield f"{type(value).__name__} {value!r}".encode()
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield f"array {value.dtype.str} {value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, np.generic):
        yield from _pieces(np.asarray(value))
    elif isinstance(value, np.ndarray | list | tuple):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        # One call of C code for a whole column of plain values, instead of one generator for each of them.
        if all(type(item) in (str, bool, int, float) or item is None for item in items):
            yield f"plain {json.dumps(items)}".encode()
            return
        yield f"list {len(items)}".encode()
        for item in items:
            yield from _pieces(item)
    elif isinstance(content := getattr(value, "content", None), list):
        yield f"{type(value).__qualname__}".encode()
        yield from _pieces(content)
    elif isinstance(value, Mapping):
        yield f"mapping {len(value)}".encode()
        for name, item in value.items():
            yield from _pieces(name)
            yield from _pieces(item)
    elif is_dataclass(value):
        names = [f.name for f in fields(value) if not f.name.startswith("_") and f.name not in leave_out]
        yield f"{type(value).__qualname__} {names}".encode()
        for name in names:
            yield from _pieces(getattr(value, name))
    else:
        raise TypeError(f"no digest of a {type(value).__name__}")


def _draws(key: str) -> str:
    return f"{key}-draws"


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:  # it is gone, or in a read-only folder
        return


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())
