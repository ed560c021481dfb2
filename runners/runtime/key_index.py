"""Index of the keys of stored parts, in memory, 40 bytes per key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

Keys = np.ndarray[Any, np.dtype[np.uint64]]
"""Keys (n, 4), as 64-bit words."""
Places = np.ndarray[Any, np.dtype[np.int64]]


class KeyIndex:
    """Index from key to place (segment * 2**32 + row); the first of equal keys counts."""

    def __init__(self, keys: Sequence[Keys]) -> None:
        """Index the keys of each segment, in order."""
        places = [np.arange(len(k), dtype=np.int64) + (number << 32) for number, k in enumerate(keys)]
        # The empty array first, since nothing at all cannot be concatenated.
        every = np.concatenate([np.empty((0, 4), np.uint64), *keys])
        # By the first of four words only: it alone tells SHA-256 keys apart but for accidents, which `_sorted` steps over.
        # Stable, so that of equal keys the earliest segment stays first.
        order = np.argsort(every[:, 0], kind="stable")
        self._keys, self._places = every[order], np.concatenate([np.empty(0, np.int64), *places])[order]
        self._first = np.ascontiguousarray(self._keys[:, 0])
        # New keys go to a table beside the array: sorting forty bytes a part anew with every batch would cost more than the batch.
        self._recent: dict[bytes, int] = {}

    def add(self, keys: pa.ChunkedArray, segment: int) -> None:
        """Add the keys of segment `segment`, a new highest number; known keys keep their place."""
        for row, (key, place) in enumerate(zip(listed := keys.to_pylist(), self._sorted(listed), strict=True)):
            # To sort anew for each batch would cost more than it saves: late keys go into a dictionary until the next opening.
            if place < 0:
                self._recent.setdefault(key, (segment << 32) + row)

    def find(self, keys: Sequence[bytes]) -> Places:
        """Return each 32-byte key's place (n,), segment number << 32 | row; -1 if absent."""
        places = self._sorted(keys)
        if self._recent:
            for row in np.flatnonzero(places < 0).tolist():
                places[row] = self._recent.get(keys[row], -1)
        return places

    def count(self) -> int:
        """Return the number of distinct keys."""
        ordered = self._keys[np.lexsort(self._keys.T)]
        # The recent ones are in none of the sorted segments (see `add`), so the two counts never overlap.
        distinct = int((ordered[1:] != ordered[:-1]).any(axis=1).sum()) + 1 if len(ordered) else 0
        return distinct + len(self._recent)

    def _sorted(self, keys: Sequence[bytes]) -> Places:
        words = np.frombuffer(b"".join(keys), np.uint64).reshape(-1, 4)
        places = np.full(len(keys), -1, np.int64)
        at = np.searchsorted(self._first, words[:, 0])
        left = np.flatnonzero(at < len(self._first))
        while len(left):
            left = left[self._first[at[left]] == words[left, 0]]
            whole = (self._keys[at[left]] == words[left]).all(axis=1)
            places[left[whole]] = self._places[at[left[whole]]]
            left = left[~whole]  # the first word is another key's too: look at the next place
            at[left] += 1
            left = left[at[left] < len(self._first)]
        return places


def copy_key_words(keys: pa.ChunkedArray) -> Keys:
    """Copy a key column of a mapped file to an array (n, 4) of 64-bit words."""
    # A slice of a table shares the whole buffer of its parent: the offset says where its own keys begin.
    joined = b"".join(chunk.buffers()[1].slice(chunk.offset * 32, len(chunk) * 32) for chunk in keys.chunks)
    return np.frombuffer(joined, np.uint64).reshape(-1, 4)
