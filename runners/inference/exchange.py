"""Requests and replies by batch, behind the interface of an immediate server (`qualm.runners.servers.client.Exchange`).

If a batch has brought the reply to a request, it is returned; else the request joins the next batch and `ReplyPendingError` is raised.
A request is known by a digest of its content and purpose, so a resumed run finds the same reply.
Server-side failures are retried in later batches, `TRIES` times in all.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qualm.runners.inference.waiting import Draft, Sent, Waiting
from qualm.runners.runtime.server_config import Price
from qualm.runners.runtime.spending_limit import WAIT, SpendingLimitError
from qualm.runners.servers.batch_api import MAX_REQUESTS, QUEUE_FULL, BatchApi, BatchJob, Outcome, max_line_bytes, request_line
from qualm.runners.servers.client import (
    Client,
    FatalRequestError,
    ReplyPendingError,
    RequestFailedError,
    RequestRejectedError,
    RetryableError,
)
from qualm.runners.servers.protocol import InvalidReplyError, read_usage, token_bounds
from qualm.runners.servers.replies import Completion

TRIES = 3
"""Times that one run sends a request; each may take a day."""


class BatchExchange:
    """Replies from a batch API, behind the interface of an immediate server; thread-safe."""

    def __init__(self, client: Client, waiting: Waiting, identity: Callable[[int, str], bytes], stage: str) -> None:
        """Connect a client to a stage's stored batches; `identity`: store key of (item, part).

        Args:
            identity: (item, part) -> key that the answer is stored under, without its subject.
        """
        self.client, self.waiting, self.api = client, waiting, BatchApi(client)
        self.price = client.server.answer_price or Price(0.0, 0.0)
        self.counters: Counter[str] = Counter()
        self.items: Sequence[int] = ()
        """Items of the current round, by the client's index."""
        self.batches: list[Sent] = []
        """Batches that this run has sent or resumed."""
        self._identity, self._stage = identity, stage
        self._lock = threading.Lock()
        self._missing: defaultdict[int, set[str]] = defaultdict(set)
        """Item -> keys of its missing replies."""
        self._sends: Counter[str] = Counter()
        self._most_requests = MAX_REQUESTS
        self._draft: Draft | None = None

    def ask(self, place: int, about: str, body: Mapping[str, Any]) -> Completion:
        """Return the stored reply to a request; else draft the request, raise ReplyPendingError.

        Args:
            place: index of the item among those of the current round.
            about: name of the part that is asked for.
            body: the request's JSON.

        Raises:
            ReplyPendingError: no reply yet.
            RequestRejectedError, RequestFailedError, FatalRequestError: see `Client.ask`.
        """
        number = self.items[place]
        text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        # The stored answer's key is in it too: equal requests for two draws are two requests, with two replies.
        key = hashlib.sha256(self._identity(number, about) + about.encode() + b"\0" + text.encode()).hexdigest()[:40]
        with self._lock:
            # If it is on its way again, the old reply is a failure that was sent once more.
            outcome = None if self.waiting.awaits(key) else self.waiting.reply(key)
            is_fresh = key in self.waiting.fresh
        if outcome is not None:
            try:
                return self._read(outcome, body)
            except (RetryableError, InvalidReplyError) as error:
                if is_fresh and self._sends[key] >= TRIES:
                    raise self.client.final_error(error, self._sends[key]) from None
                self.counters["requests sent again"] += 1
            except (RequestRejectedError, FatalRequestError):
                if is_fresh or outcome.status == 200:  # what an earlier run was refused may be answered now
                    raise
        with self._lock:
            self._missing[number].add(key)
            if not self.waiting.awaits(key) and not (self._draft is not None and self._draft.holds(key)):
                self._write(key, body)
        raise ReplyPendingError

    def is_ready(self, number: int) -> bool:
        """Return false while all replies that an item misses are due; else true, forgetting them.

        If true, what it misses is forgotten: `ask` notes it anew.
        """
        # Popped: `ask` notes anew whatever is still missing.
        missing = self._missing.pop(number, set())
        if missing and all(self.waiting.awaits(key) for key in missing):
            self._missing[number] = missing
            return False
        return True

    def resume(self) -> None:
        """Resume a killed run's open batches; drop and refund those that were never created.

        Raises:
            FatalRequestError: the server does not list its batches.
        """
        for batch in self.waiting.open_batches():
            # Uploaded but without an id here: the kill may have come after the server made it. Made twice, it would be paid for twice.
            there = self.api.find_created(batch.file, batch.since) if batch.file and not batch.id else None
            if there is not None:
                self.waiting.created(batch, there.id)
            elif not batch.id:
                self._settle(batch, 0.0)
                self.waiting.drop(batch)
        for batch in self.waiting.open_batches():
            self.batches.append(batch)
            since = time.strftime("%F %H:%M", time.localtime(batch.since))
            self.tell(f"batch {batch.id} of {len(batch.keys)} requests is on its way since {since}")

    def send(self) -> None:
        """Send the drafted requests as a batch; raise FatalRequestError if they are refused."""
        with self._lock:
            self._close_draft()

    def needed(self) -> list[Sent]:
        """Return the open batches that hold a request for which an item of the round waits."""
        missing = set().union(*self._missing.values())
        return [batch for batch in self.waiting.open_batches() if not missing.isdisjoint(batch.keys)]

    def poll(self, batch: Sent) -> bool:
        """Ask for a batch's state; return whether it has ended, its replies and cost then stored.

        Raises:
            FatalRequestError: it was cancelled or refused.
        """
        now = self.api.get(batch.id)
        if not now.has_ended:
            return False
        self.waiting.take_replies(batch, (self.api.download(file) for file in now.files))
        dollars, answered = self._cost(batch), sum(outcome.status == 200 for outcome in self.waiting.replies(batch))
        self._settle(batch, dollars)
        self.waiting.record_end(batch, now.status, dollars)
        self.counters["batches"] += 1
        for key in batch.keys:
            self._sends[key] += 1
        self.tell(f"batch {now.id} {now.status}: {answered} of {len(batch.keys)} requests answered")
        self._check(batch, now, answered)
        return True

    def _check(self, batch: Sent, now: BatchJob, answered: int) -> None:
        """Raise FatalRequestError for a cancelled or failed batch; if too full, halve later ones.

        A full queue at the server raises only if the batch holds a single request.
        """
        unanswered = len(batch.keys) - answered
        if now.status == "expired":
            self.counters["requests expired"] += unanswered
        if now.status == "cancelled":
            raise FatalRequestError(
                f"batch {now.id} was cancelled at the server with {unanswered} requests unanswered; run again to resend them"
            )
        if now.status != "failed":
            return
        why = self.client.plain(now.fault or "the server does not say why")
        if now.code != QUEUE_FULL or len(batch.keys) == 1:
            raise FatalRequestError(f"the server refused batch {now.id} of {len(batch.keys)} requests: {why}")
        self._most_requests = max(1, len(batch.keys) // 2)
        # A batch that was refused for its size was never tried.
        self._sends.subtract(batch.keys)
        self.tell(f"{why}; its requests are sent in batches of {self._most_requests}")

    def _read(self, outcome: Outcome, body: Mapping[str, Any]) -> Completion:
        if outcome.status == 200:
            return self.client.parse_reply(outcome.data, body)
        text = outcome.data.decode("utf-8", "replace")
        raise self.client.status_error(outcome.status, text) if outcome.status else RetryableError(self.client.plain(text))

    def _write(self, key: str, body: Mapping[str, Any]) -> None:
        if self._sends[key] >= TRIES:
            raise RequestFailedError(
                f"was sent in {TRIES} batches, and the last came back without a reply to it; run again to send it once more"
            )
        line, most = request_line(key, body), self.price.dollars(*token_bounds(body))
        draft = self._draft
        if draft is not None and not draft.has_room(len(line), max_line_bytes(body), most, self._most_requests):
            self._close_draft()
        if self._draft is None:
            room = self.client.budget.room()
            if most > room:
                if self.waiting.open_batches():  # what they leave of what they may cost is room later
                    return
                self._check_affordable(most)
            self._draft = Draft(self.waiting.folder, room)
        self._draft.add(key, line, max_line_bytes(body), most)

    def _check_affordable(self, dollars: float) -> None:
        """Raise FatalRequestError if the spending limit will never allow `dollars`; else nothing."""
        try:
            if (key := self.client.budget.hold(dollars)) != WAIT:
                self.client.budget.settle(key, 0.0)
        except SpendingLimitError as error:
            raise FatalRequestError(str(error)) from None

    def _close_draft(self) -> None:
        if self._draft is not None:
            draft, self._draft = self._draft, None
            self._send(self.waiting.write(*draft.finish()))

    def _send(self, batch: Sent) -> None:
        """Reserve a batch's money, upload and start it; FatalRequestError over the spending limit.

        Each step is on disk before the next.
        """
        try:
            self.client.budget.hold(batch.most, key=batch.name)
        except SpendingLimitError as error:
            raise FatalRequestError(str(error)) from None
        self.waiting.uploaded(batch, self.api.upload(self.waiting.requests(batch)))
        there = self.api.make(batch.file, batch.name, batch.since)
        self.waiting.created(batch, there.id)
        self.batches.append(batch)
        self.tell(f"batch {there.id} of {len(batch.keys)} requests was sent")

    def _settle(self, batch: Sent, dollars: float) -> None:
        if self.client.budget.holds(batch.name):  # else a run that was killed did so
            self.client.budget.settle(batch.name, dollars)

    def _cost(self, batch: Sent) -> float:
        dollars, counted, uncounted = 0.0, 0, 0
        for outcome in self.waiting.replies(batch):
            if outcome.status != 200:
                continue
            answer = json.loads(outcome.data)
            read, written = read_usage(answer) if isinstance(answer, dict) else (None, None)
            if read and written:
                dollars += self.price.dollars(read, written)
                counted += 1
                self.client.tokens.update(sent=read, received=written)
            else:
                uncounted += 1
        if uncounted:  # at their part of the most
            dollars += batch.most * uncounted / len(batch.keys)
        return min(dollars, batch.most) if uncounted else dollars

    def tell(self, what: str) -> None:
        """Print a line of text about a batch to standard error."""
        print(f"{self._stage}: {what}", file=sys.stderr, flush=True)
