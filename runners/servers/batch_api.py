"""OpenAI's batch API: upload a file of requests, create a batch of it, download the file of replies within a day.

`POST /files`, `POST /batches`, `GET /batches`, `GET /batches/ID`, `GET /files/ID/content`, through the official client and within the
limits on replies (`qualm.runners.servers.transport`). A batch costs money once it is made, so it is never made twice: where it is not
known whether the server heard us, the server's list is asked for a batch of that file first.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from qualm.runners.servers.client import (
    Client,
    FatalRequestError,
    RequestFailedError,
    RequestRejectedError,
    RetryableError,
    format_attempts,
)
from qualm.runners.servers.protocol import ImpossibleReplyError, InvalidReplyError, excerpt, token_bounds
from qualm.runners.servers.rate_limits import RetryPolicy
from qualm.runners.servers.transport import MAX_REPLY_BYTES

MAX_REQUESTS, MAX_BYTES = 50_000, 190 * 2**20
"""Limits of one batch, below OpenAI's 50,000 requests and 200 MB."""
ENDPOINT, WINDOW = "/v1/chat/completions", "24h"
ENDED = ("completed", "failed", "expired", "cancelled")
QUEUE_FULL = "token_limit_exceeded"
"""Error code of a batch for an account with too many waiting tokens."""
_MAX_OBJECT_BYTES = 4 * 2**20
_MIN_BYTES_PER_SECOND = 100_000
"""Minimum bytes per second of a transfer, for its time limit beyond `deadline`."""
_PAGE_SIZE, _MAX_PAGES, _CLOCK_TOLERANCE = 100, 50, 3600
T = TypeVar("T")


@dataclass(frozen=True)
class BatchJob:
    """A batch as the server describes it."""

    id: str
    status: str
    file: str
    """Id of the request file."""
    created: float
    files: tuple[str, ...] = ()
    """Ids of the files of replies and errors."""
    fault: str = ""
    """The server's error message."""
    code: str = ""
    done: int = 0
    total: int = 0

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True)
class Outcome:
    """Result of one request of a batch: its key, HTTP status and body."""

    key: str
    status: int
    data: bytes
    """Body of the reply or of the error."""


class BatchApi:
    """Client of a server's batch API; calls are retried like requests, except `find`."""

    def __init__(self, client: Client, wait: Callable[[float], None] = time.sleep) -> None:
        self.client, self._wait = client, wait
        self._policy = RetryPolicy(client.server.retries, client.server.pause)

    def upload(self, path: Path) -> str:
        """Upload a file of requests and return its id; FatalRequestError if it is refused."""

        def call(client: Any) -> Any:
            with path.open("rb") as file:
                return client.files.with_raw_response.create(file=(path.name, file, "application/jsonl"), purpose="batch").http_response

        return _read_text(self._tried(lambda: self._object(call, self._seconds(path.stat().st_size))), "id")

    def make(self, file_id: str, name: str, since_unix: float) -> BatchJob:
        """Create a batch of an uploaded file; each retry first looks if a failed try created it.

        Args:
            file_id: id of the file.
            name: our label, stored in the server's metadata.
            since_unix: when the file was written.

        Raises:
            FatalRequestError: the server refuses, cannot be reached, or does not list its batches.
        """

        def call(client: Any) -> Any:
            return client.batches.with_raw_response.create(
                input_file_id=file_id, endpoint=ENDPOINT, completion_window=WINDOW, metadata={"qualm": name}
            ).http_response

        perhaps_made = False

        def once() -> BatchJob:
            nonlocal perhaps_made
            if perhaps_made and (there := self.find(file_id, since_unix)):
                return there
            perhaps_made = True
            return _parse_batch(self._object(call))

        return self._tried(once)

    def find_created(self, file_id: str, since_unix: float) -> BatchJob | None:
        """Return the batch that an interrupted run created of a file; None if two looks find none.

        Raises:
            FatalRequestError: the server lists no batches, or could not be reached.
        """
        there = self._tried(lambda: self.find(file_id, since_unix))
        if there is None:
            self._wait(self.client.server.pause)
            there = self._tried(lambda: self.find(file_id, since_unix))
        return there

    def find(self, file_id: str, since_unix: float) -> BatchJob | None:
        """Look once for a file's batch in the server's list since a Unix time; None if not there."""
        after = ""
        for _ in range(_MAX_PAGES):
            query = {"limit": _PAGE_SIZE, **({"after": after} if after else {})}
            page = self._object(partial(_list_batches, query))
            listed = page.get("data")
            if not isinstance(listed, list):
                raise InvalidReplyError(f"expected a list of batches, got {excerpt(json.dumps(page))}")
            batches = [_parse_batch(entry) for entry in listed]
            if there := next((batch for batch in batches if batch.file == file_id), None):
                return there
            if not batches or not page.get("has_more") or batches[-1].created < since_unix - _CLOCK_TOLERANCE:
                return None
            after = batches[-1].id
        return None

    def get(self, batch_id: str) -> BatchJob:
        """Return the present state of the batch of an id; FatalRequestError if all tries fail."""
        return self._tried(
            lambda: _parse_batch(self._object(lambda client: client.batches.with_raw_response.retrieve(batch_id).http_response))
        )

    def download(self, file_id: str) -> bytes:
        """Return the bytes of a file of replies; raise FatalRequestError if they do not come."""

        def call(client: Any) -> Any:
            return client.files.with_raw_response.content(file_id).http_response

        return self._tried(lambda: bytes(self.client.call(call, MAX_REPLY_BYTES, self._seconds(MAX_REPLY_BYTES)).content))

    def _object(self, call: Callable[[Any], Any], seconds: float | None = None) -> dict[str, Any]:
        data = self.client.call(call, _MAX_OBJECT_BYTES, seconds or self.client.server.deadline).content
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise InvalidReplyError(f"expected an object, got {excerpt(data[:1000].decode('utf-8', 'replace'))}")
        return value

    def _seconds(self, size: int) -> float:
        return self.client.server.deadline + size / _MIN_BYTES_PER_SECOND

    def _tried(self, call: Callable[[], T]) -> T:
        for attempt in itertools.count(1):
            try:
                return call()
            except (RetryableError, InvalidReplyError) as error:
                if attempt > self._policy.retries:
                    raise FatalRequestError(f"failed {format_attempts(attempt)}, the last time: {self.client.plain(str(error))}") from None
                self._wait(self._policy.seconds_before(attempt, getattr(error, "after", None)))
            except (RequestRejectedError, RequestFailedError) as error:
                raise FatalRequestError(str(error)) from None
        raise AssertionError("unreachable")


def request_line(key: str, body: Mapping[str, Any]) -> bytes:
    """Return one line (JSON) of a request file; the reply has the same key."""
    line = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": dict(body)}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def max_line_bytes(body: Mapping[str, Any]) -> int:
    """Return the estimated maximum bytes of a request's reply line, to size a batch."""
    _, received = token_bounds(body)
    return 4096 + 512 * received * (1 + int(body.get("top_logprobs", 0)))


def read_outcomes(data: bytes) -> Iterator[tuple[int, int, Outcome]]:
    """Yield (offset, length, outcome) of the valid lines of a file of replies or errors."""
    at = 0
    for line in data.splitlines(keepends=True):
        if (outcome := parse_outcome(line)) is not None:
            yield at, len(line), outcome
        at += len(line)


def parse_outcome(line: bytes) -> Outcome | None:
    """Parse one line of a file of replies or errors; None if it is invalid."""
    try:
        entry = json.loads(line.decode("utf-8-sig", "replace"))
        key, response, error = entry["custom_id"], entry.get("response"), entry.get("error")
        if not isinstance(key, str):
            return None
        if isinstance(response, dict) and type(response.get("status_code")) is int:
            return Outcome(key, response["status_code"], json.dumps(response.get("body")).encode())
        return Outcome(key, 0, json.dumps(error).encode())
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None


def _list_batches(query: Mapping[str, Any], client: Any) -> Any:
    return client.batches.with_raw_response.list(**query).http_response


def _parse_batch(entry: Any) -> BatchJob:
    """Parse a server's description of a batch; raise InvalidReplyError if it is invalid."""
    if not isinstance(entry, dict):
        raise InvalidReplyError(f"expected a batch, got {excerpt(json.dumps(entry))}")
    files = tuple(str(entry[name]) for name in ("output_file_id", "error_file_id") if entry.get(name))
    errors = (entry.get("errors") or {}).get("data") if isinstance(entry.get("errors"), dict) else None
    first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
    line = f" (line {first['line']})" if first.get("line") else ""
    counts = entry.get("request_counts") if isinstance(entry.get("request_counts"), dict) else {}
    done, total = (int(n) if type(n := (counts or {}).get(name)) is int else 0 for name in ("completed", "total"))
    created: Any = entry.get("created_at")
    return BatchJob(
        _read_text(entry, "id"),
        _read_text(entry, "status"),
        _read_text(entry, "input_file_id"),
        float(created) if type(created) in (int, float) else 0.0,
        files,
        f"{first.get('message', '')}{line}" if first else "",
        str(first.get("code") or ""),
        done,
        total,
    )


def _read_text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value or len(value) > 1000:
        raise ImpossibleReplyError(f"{name}: expected a text, got {excerpt(json.dumps(value))}")
    return value
