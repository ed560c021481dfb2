"""Batches of one stage on disk: requests, progress and replies.

The folder `.qualm/batches/SPEC/STAGE` is beside the store. A journal has a line for each step of a batch (written, uploaded, made, ended),
written before the next step begins, so that a resumed run repeats nothing. Requests are in `NAME.requests` until the server has them,
replies in `NAME.replies` until all answers are stored.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qualm.registry.system import atomic
from qualm.registry.system.atomic import create_folder
from qualm.runners.runtime.journal import Journal
from qualm.runners.servers.batch_api import MAX_BYTES, Outcome, parse_outcome, read_outcomes
from qualm.runners.servers.transport import MAX_REPLY_BYTES

FOLDER = "batches"
JOURNAL = "journal.jsonl"


@dataclass
class Sent:
    """A batch of requests that was written or sent, and its progress."""

    name: str
    since: float
    """Time of writing."""
    most: float
    """Greatest cost in dollars."""
    keys: list[str] = field(default_factory=list)
    """Keys of its requests."""
    file: str = ""
    """Server's id of the uploaded requests; "" before the upload."""
    id: str = ""
    """Server's id of the batch; "" until it is made."""
    status: str = ""
    """Final status; "" until its replies are here."""
    dollars: float = 0.0


class Draft:
    """Request file of the next batch, still being written."""

    def __init__(self, folder: Path, room: float) -> None:
        create_folder(folder)
        self._path, self._room = folder / f"draft-{uuid.uuid4().hex}", room
        self._file = self._path.open("wb")
        self._keys: dict[str, None] = {}
        self._bytes, self._replies, self._most = 0, 0, 0.0

    def has_room(self, line_bytes: int, reply_bytes: int, dollars: float, max_requests: int) -> bool:
        """Return whether another request fits into the batch, by size, cost and number.

        Args:
            line_bytes: its size in the file.
            reply_bytes: largest size of its reply.
            dollars: the most that it can cost.
            max_requests: maximum number of requests in a batch.
        """
        whole = self._bytes + line_bytes > MAX_BYTES or self._replies + reply_bytes > MAX_REPLY_BYTES
        whole = whole or self._most + dollars > self._room
        return not whole and len(self._keys) < max_requests

    def add(self, key: str, line: bytes, reply_bytes: int, dollars: float) -> None:
        self._file.write(line)
        self._keys[key] = None
        self._bytes, self._replies, self._most = self._bytes + len(line), self._replies + reply_bytes, self._most + dollars

    def holds(self, key: str) -> bool:
        return key in self._keys

    def finish(self) -> tuple[Path, list[str], float]:
        """Close the file; return (path, its requests' keys, its greatest cost in dollars)."""
        self._file.close()
        return self._path, list(self._keys), self._most


class Waiting:
    """Batches of one stage on disk, with requests, progress and replies; not thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._journal = Journal(folder / JOURNAL)
        self.batches: dict[str, Sent] = {}
        self._places: dict[str, tuple[Path, int, int]] = {}
        """Key of a request -> its newest reply: file, first byte, length."""
        self.fresh: set[str] = set()
        """Keys of replies that arrived in this process."""
        self._flying: dict[str, str] = {}
        """Key of an open request -> name of its batch."""

    def open(self) -> bool:
        """Lock and read the folder, deleting half-written requests; False if another has it."""
        if not self._journal.hold():
            return False
        for line in self._journal.content().splitlines():
            self._take(json.loads(line))
        for batch in self.batches.values():
            batch.keys = self._path(batch, "keys").read_text(encoding="ascii").split()
            if batch.status:
                self._index(batch)
            else:
                self._flying |= dict.fromkeys(batch.keys, batch.name)
        for path in self.folder.iterdir():  # requests that a killed process was still writing
            if not path.name.startswith(JOURNAL) and path.name.partition(".")[0] not in self.batches:
                path.unlink(missing_ok=True)
        return True

    def close(self) -> None:
        """Unlock the folder."""
        self._journal.close()

    def reply(self, key: str) -> Outcome | None:
        """Return the newest reply to the request of this key; None without one."""
        if key not in self._places:
            return None
        path, at, length = self._places[key]
        with path.open("rb") as file:
            file.seek(at)
            return parse_outcome(file.read(length))

    def awaits(self, key: str) -> bool:
        """Return whether the request of this key is in an open batch."""
        return key in self._flying

    def open_batches(self) -> list[Sent]:
        """Return the batches whose replies have not all come yet."""
        return [batch for batch in self.batches.values() if not batch.status]

    def write(self, draft: Path, keys: list[str], max_dollars: float) -> Sent:
        """Move the request file `draft` to a new batch, record it with `keys`, and return it."""
        batch = Sent(f"{time.strftime('%Y%m%dT%H%M%S')}-{uuid.uuid4().hex[:12]}", round(time.time(), 3), max_dollars, keys)
        # Keys before the journal's line: a batch that the journal knows always has its keys.
        atomic.write_text(self._path(batch, "keys"), "\n".join(keys) + "\n", durable=True)
        atomic.publish(draft, self.requests(batch))  # a power cut may take it: a batch that was not uploaded is written anew
        self._tell(batch.name, since=batch.since, most=max_dollars)
        batch = self.batches[batch.name]
        batch.keys = keys
        self._flying |= dict.fromkeys(keys, batch.name)
        return batch

    def requests(self, batch: Sent) -> Path:
        return self._path(batch, "requests")

    def uploaded(self, batch: Sent, file: str) -> None:
        self._tell(batch.name, file=file)

    def created(self, batch: Sent, id: str) -> None:
        self._tell(batch.name, id=id)
        self.requests(batch).unlink(missing_ok=True)

    def take_replies(self, batch: Sent, files: Iterable[bytes]) -> None:
        """Store a batch's replies, out of the server's `files`; drop replies to other requests."""
        own = set(batch.keys)
        # Replies and errors come in files of their own, and not every server ends the last line.
        data = b"".join(part if part.endswith(b"\n") or not part else part + b"\n" for part in files)
        own_replies = b"".join(data[at : at + length] for at, length, outcome in read_outcomes(data) if outcome.key in own)
        atomic.write_bytes(self._path(batch, "replies"), own_replies, durable=True)

    def replies(self, batch: Sent) -> Iterator[Outcome]:
        path = self._path(batch, "replies")
        for _, _, outcome in read_outcomes(path.read_bytes() if path.exists() else b""):
            yield outcome

    def record_end(self, batch: Sent, status: str, dollars: float) -> None:
        """Record that a batch has ended, its replies stored and `dollars` paid for them."""
        self._tell(batch.name, status=status, dollars=dollars)
        for key in batch.keys:
            self._flying.pop(key, None)
        self.fresh |= self._index(batch)

    def drop(self, batch: Sent) -> None:
        """Forget a batch that was never created at the server."""
        self._tell(batch.name, gone=True)
        for key in batch.keys:
            self._flying.pop(key, None)

    def clear(self) -> None:
        """Forget the ended batches and delete their files; their answers must be stored already."""
        rest = self.open_batches()
        for batch in [batch for batch in self.batches.values() if batch.status]:
            self._tell(batch.name, gone=True)
            for what in ("keys", "requests", "replies"):
                self._path(batch, what).unlink(missing_ok=True)
        # The journal goes only with the last batch: an open one is known by nothing else.
        if not rest:
            (self.folder / JOURNAL).unlink(missing_ok=True)

    def _index(self, batch: Sent) -> set[str]:
        path = self._path(batch, "replies")
        keys = set()
        for at, length, outcome in read_outcomes(path.read_bytes() if path.exists() else b""):
            self._places[outcome.key] = path, at, length
            keys.add(outcome.key)
        return keys

    def _path(self, batch: Sent, what: str) -> Path:
        return self.folder / f"{batch.name}.{what}"

    def _tell(self, name: str, **facts: Any) -> None:
        entry = {"batch": name, **facts}
        self._journal.append(json.dumps(entry, sort_keys=True).encode() + b"\n")
        self._take(entry)

    def _take(self, entry: dict[str, Any]) -> None:
        facts = dict(entry)
        name = str(facts.pop("batch"))
        if "gone" in facts:
            self.batches.pop(name, None)
            return
        batch = self.batches.get(name) or Sent(name, 0.0, 0.0)
        self.batches[name] = batch
        for what, value in facts.items():
            setattr(batch, what, value)


def folder_of(store: str, stage: str) -> Path:
    """Return the folder of a stage's batches, beside the answer store."""
    return Path(store).parent / FOLDER / stage
