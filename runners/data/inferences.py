"""Store of NLI logits by the digest of the texts.

A line of the journal (`qualm.runners.runtime.append_log`) is one batch: its keys and its logits as raw numbers, since there may be
millions.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qualm.runners.runtime.append_log import LineLog

MAGIC = "qualm nli 1"
"""Format version, part of the folder's name."""
_KEY = 16
# Fixed, not the machine's own: a cache may be shared between machines of either byte order.
_ORDER = "<f4"


class Inferences:
    """Stored logits of one NLI engine, by key; opening reads and checks all files."""

    def __init__(self, root: Path, identity: str, classes: int = 3) -> None:
        self._classes = classes
        self.folder = root / hashlib.sha256(f"{MAGIC} {identity}".encode()).hexdigest()[:32]
        self._lines = LineLog(self.folder, "inferences")
        self._rows: dict[bytes, int] = {}
        self._blocks: list[NDArray[np.float32]] = [np.empty((0, classes), np.float32)]
        for keys, logits in self._lines.read(self._parse_line) if identity else ():
            self._add(keys, logits)

    def __contains__(self, key: bytes) -> bool:
        return key in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, keys: Sequence[bytes]) -> NDArray[np.float64]:
        """Return the logits (n, classes) of these keys, all of which must be stored."""
        # Joined when read, not when added: adding n batches one by one would copy n^2 rows.
        self._blocks = [np.concatenate(self._blocks)]
        logits: NDArray[np.float64] = self._blocks[0][[self._rows[key] for key in keys]].astype(np.float64)
        return logits

    def put(self, keys: Sequence[bytes], logits: Sequence[Sequence[float]]) -> None:
        """Store one batch of logits under its keys; it is on disk on return.

        Raises:
            OSError: the disk is full or cannot be written; all earlier batches stay readable.
        """
        block = np.asarray(logits, _ORDER).reshape(-1, self._classes)
        parts = {"keys": b"".join(keys), "logits": block.tobytes()}
        self._lines.append([json.dumps({name: base64.b64encode(raw).decode() for name, raw in parts.items()}).encode()])
        self._add(keys, block)

    def _add(self, keys: Sequence[bytes], logits: NDArray[np.float32]) -> None:
        start = sum(map(len, self._blocks))
        self._blocks.append(logits.astype(np.float32))
        for row, key in enumerate(keys, start):
            # The first counts, as in the store of answers, however many processes computed the same pair.
            self._rows.setdefault(key, row)

    def _parse_line(self, body: bytes) -> tuple[list[bytes], NDArray[np.float32]]:
        """Parse a line to (keys, logits (n, classes)); ValueError, TypeError, KeyError if damaged."""
        entry = json.loads(body)
        keys = base64.b64decode(entry["keys"])
        logits = np.frombuffer(base64.b64decode(entry["logits"]), _ORDER).reshape(-1, self._classes)
        # One NaN would make every cluster it takes part in undefined, for ever: better computed again.
        if len(keys) != _KEY * len(logits) or not np.isfinite(logits).all():
            raise ValueError
        return [keys[i : i + _KEY] for i in range(0, len(keys), _KEY)], logits
