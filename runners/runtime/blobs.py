"""Cache of costly results by the content of their inputs, so that a killed run resumes.

One file for each, named by a digest of all that the result depends on, beneath two letters of it so that no folder holds
thousands. A file begins with the SHA-256 of the rest: one that fails its checksum is as good as absent.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from qualm.registry.system import atomic
from qualm.runners.runtime.stage import LOCAL, StageError


class BlobCache:
    """Cache of one kind of results as files; safe for threads and processes."""

    def __init__(self, kind: str, *identity: Any, root: Path | None = None) -> None:
        """Open the cache of results of a kind that `identity` (code, model, settings) computes.

        Args:
            kind: names the folder: `masks`, `pictures`.
            identity: what every result depends on, as JSON: digests of model and code, settings that change content.
            root: where; `.qualm/kept` unless given.
        """
        self.folder = (root or LOCAL / "kept") / kind
        self.identity = json.dumps(identity, sort_keys=True, separators=(",", ":"))

    def key(self, *material: Any) -> str:
        """Return the SHA-256 of the cache's identity and of a result's other inputs."""
        text = json.dumps(material, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(f"{self.identity}\n{text}".encode()).hexdigest()

    def get(self, key: str) -> bytes | None:
        """Return the stored bytes of a key; None if they are missing or (with a notice) damaged."""
        path = self.path(key)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        if raw[:32] != hashlib.sha256(raw[32:]).digest():
            print(f"{path}: fails its checksum ({len(raw)} bytes); it is made again", file=sys.stderr, flush=True)
            return None
        return raw[32:]

    def put(self, key: str, data: bytes, durable: bool = True) -> None:
        """Store a result, safe from a kill and, if `durable`, a power cut; StageError on failure.

        Raises:
            StageError: the disk is full or cannot be written to; what was kept before stays.
        """
        path = self.path(key)
        try:
            atomic.write_bytes(path, hashlib.sha256(data).digest() + data, durable=durable)
        except OSError as error:
            raise StageError(f"{path}: a result cannot be kept: {error}; make room and run it again: earlier results are kept") from error

    def path(self, key: str) -> Path:
        """Return the path of a key's file."""
        # Two letters to a folder: none holds thousands of files.
        return self.folder / key[:2] / key[2:]
