"""Every reply ever given here, found again by the content of its request.

Lost without it: money, and everything a killed run had been told. What it must never do is give a reply to another request, so
the key is a digest over all that a reply depends on. One line of JSON per reply (`runners.lines`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runners.lines import Lines

if TYPE_CHECKING:
    from runners.generators import Request

MAGIC = "qualm replies 1"
"""In every key and file name: with another format, nothing is found again."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    text: str | None
    """None where the request cannot be answered, however often it is asked."""
    finish: str = "stop"
    """`stop`: it ended by itself. `length`: cut at the limit. `rejected`: no text."""
    prompt_tokens: int | None = None
    reply_tokens: int | None = None
    error: str | None = None
    """Why there is no text."""


def request_key(identity: str, request: Request) -> bytes:
    """SHA-256 over everything that a reply depends on: generator, every turn with its pictures, limits and seed."""
    turns = [[m.role, m.text, [hashlib.sha256(image).hexdigest() for image in m.images]] for m in request.messages]
    material = json.dumps([MAGIC, identity, turns, request.max_new_tokens, float(request.temperature), request.seed])
    return hashlib.sha256(material.encode()).digest()


class Replies:
    """The replies of one generator. Opening reads and checks all its files."""

    def __init__(self, root: Path, identity: str) -> None:
        self.folder = root / hashlib.sha256(f"{MAGIC} {identity}".encode()).hexdigest()[:32]
        self._lines = Lines(self.folder, "replies")
        self._known = dict(map(_parsed, self._lines.read()))

    @property
    def damaged(self) -> int:
        """Lines that were cut short or changed, and are ignored."""
        return self._lines.damaged

    def __contains__(self, key: bytes) -> bool:
        return key in self._known

    def __getitem__(self, key: bytes) -> Reply:
        return self._known[key]

    def __len__(self) -> int:
        return len(self._known)

    def put(self, replies: Sequence[tuple[bytes, Reply]]) -> None:
        """Append; when this returns, the replies survive a kill and a power cut.

        Raises:
            OSError: the disk is full or cannot be written; all earlier replies stay readable.
        """
        self._lines.append([json.dumps({"key": key.hex(), **asdict(reply)}, ensure_ascii=True).encode() for key, reply in replies])
        self._known.update(replies)


def _parsed(body: bytes) -> tuple[bytes, Reply]:
    found = json.loads(body)
    return bytes.fromhex(found.pop("key")), Reply(**found)
