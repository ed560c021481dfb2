"""Store of generators' replies by the content of their requests.

Lost without it: money, and everything a killed run had been told. What it must never do is give a reply to another request, so
the key is a digest over all that a reply depends on. One line of JSON per reply (`qualm.runners.runtime.append_log`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from qualm.runners.contracts.generators import Reply
from qualm.runners.runtime.append_log import LineLog
from qualm.runners.servers.protocol import is_count

if TYPE_CHECKING:
    from qualm.runners.contracts.generators import ChatRequest

MAGIC = "qualm replies 1"
"""Format version, part of every key and file name."""


def request_key(identity: str, request: ChatRequest) -> bytes:
    """Return the SHA-256 of all that a reply depends on: generator, conversation, decoding."""
    turns = [[m.role, m.text, [hashlib.sha256(image).hexdigest() for image in m.images]] for m in request.messages]
    material = json.dumps([MAGIC, identity, turns, request.max_new_tokens, float(request.temperature), request.seed, request.schema])
    return hashlib.sha256(material.encode()).digest()


class Replies:
    """Stored replies of one generator, by request key; opening reads and checks all files."""

    def __init__(self, root: Path, identity: str) -> None:
        self.folder = root / hashlib.sha256(f"{MAGIC} {identity}".encode()).hexdigest()[:32]
        self._lines = LineLog(self.folder, "replies")
        self._by_key = dict(self._lines.read(_parse_line))

    @property
    def damaged(self) -> int:
        """Return the number of truncated or changed lines, which are ignored."""
        return self._lines.damaged

    def __contains__(self, key: bytes) -> bool:
        return key in self._by_key

    def __getitem__(self, key: bytes) -> Reply:
        return self._by_key[key]

    def __len__(self) -> int:
        return len(self._by_key)

    def put(self, replies: Sequence[tuple[bytes, Reply]]) -> None:
        """Store (key, reply) pairs; they are on disk on return.

        Raises:
            OSError: the disk is full or cannot be written; all earlier replies stay readable.
        """
        self._lines.append([json.dumps({"key": key.hex(), **asdict(reply)}, ensure_ascii=True).encode() for key, reply in replies])
        self._by_key.update(replies)


def _parse_line(body: bytes) -> tuple[bytes, Reply]:
    """Parse a line's (key, reply); raise ValueError, KeyError or TypeError if damaged."""
    entry = json.loads(body)
    key, reply = bytes.fromhex(entry.pop("key")), Reply(**entry)
    counts = (reply.prompt_tokens, reply.reply_tokens)
    is_whole = isinstance(reply.text, str) if reply.finish in ("stop", "length") else reply.finish == "no text" and reply.text is None
    if not is_whole or not all(c is None or is_count(c) for c in counts):
        raise ValueError
    # JSON may hold lone surrogates ("\ud800"), which would fail much later, where a table is written.
    (reply.text or "").encode()
    return key, reply
