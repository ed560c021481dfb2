"""Every reply ever given here, found again by the content of its request.

Lost without it: money, and everything a killed run had been told. What it must never do is give a reply to another request, so
the key is a digest over all that a reply depends on, and a line that fails its checksum is as good as absent.

One text file per process and generator, one line per reply: the SHA-256 of the rest, then JSON. Lines are only appended, and
on disk before the reply is used, so any number of processes may write at once, and a kill or a full disk costs the last line.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runners.generators import Request

MAGIC = "qualm replies 1"
"""In every key and file name: with another format, nothing is found again."""
_DIGEST = 64


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
        self.damaged = 0
        """Lines that were cut short or changed, and are ignored."""
        self._known: dict[bytes, Reply] = {}
        self._file: Path | None = None
        for path in sorted(self.folder.glob("*.replies")):
            self._read(path)
        if self.damaged:
            print(f"replies: {self.folder}: {self.damaged} damaged lines are ignored; they are asked again", file=sys.stderr, flush=True)

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
        if not replies:
            return
        text = b"".join(_line(key, reply) for key, reply in replies)
        if self._file is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = self.folder / f"{time.time_ns():020d}-{uuid.uuid4().hex}.replies"
        handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            written = 0
            while written < len(text):
                written += os.write(handle, text[written:])
            os.fsync(handle)
        except OSError:
            self._file = None  # what comes next must not be glued to half a line
            raise
        finally:
            os.close(handle)
        self._known.update(replies)

    def _read(self, path: Path) -> None:
        for line in path.read_bytes().split(b"\n"):
            if not line:
                continue
            digest, body = line[:_DIGEST], line[_DIGEST + 1 :]
            if hashlib.sha256(body).hexdigest().encode() != digest:
                self.damaged += 1
                continue
            found = json.loads(body)
            key = bytes.fromhex(found.pop("key"))
            self._known[key] = Reply(**found)


def _line(key: bytes, reply: Reply) -> bytes:
    body = json.dumps({"key": key.hex(), **asdict(reply)}, ensure_ascii=True).encode()
    return hashlib.sha256(body).hexdigest().encode() + b" " + body + b"\n"
