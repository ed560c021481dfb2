"""Inference by a server: many concurrent requests, each reply stored as soon as it arrives.

A killed run loses only the requests in flight. A request that the server rejects leaves its part undefined, with the reason.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.runners.contracts.models import ANSWER, Part, PartReply, Request
from qualm.runners.data.answers import Store, undefine_invalid
from qualm.runners.inference.keys import computed_keys
from qualm.runners.runtime import status
from qualm.runners.runtime.journal import Journal
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.stage import LOCAL, Stage, StageError
from qualm.runners.servers.client import MAX_FAILURES_IN_A_ROW, ReplyPendingError, RequestRejectedError, ServerError

if TYPE_CHECKING:
    from qualm.runners.inference.batch_plan import AnswerTask
    from qualm.runners.inference.requests import Asker, Place

MAX_WITHOUT_LOGPROBS = 20
"""Answers after which a run that asks for log-probabilities, and has seen none, ends once: the rest would cost as much for nothing."""
MAX_LINES = 10
"""Undefined answers that are printed; the run's record has all."""


def ask_all(asker: Asker, store: Store, tasks: list[AnswerTask], proven: bool = False) -> None:
    """Ask a server for all missing answer parts, store replies; StageError if it fails.

    `proven`: the server answered before, so that its first rejections and answers without
    log-probabilities do not stop it.

    Raises:
        StageError: the server, or every request, failed; answers are stored.
    """
    asking = Asking(asker, store, tasks, proven)
    if not tasks:
        return
    try:
        with progress(asker.stage.settings, "asking", sum(len(task.parts) for task in tasks)) as advance:
            for outcomes in asker.model.client.pooled(range(len(tasks)), asking.work, "sample"):
                asking.take(outcomes)
                advance(len(outcomes))
                # Not by raising: replies that are on their way are paid for, and are stored first.
                if reason := asking.rejection_message() or asking.logprobs_warning():
                    asker.model.client.stop(reason)
    except ServerError as error:
        raise StageError(str(error)) from None
    else:
        asking.finish()
    finally:
        asking.write()


class Asking:
    """Requests for the missing parts of a stage's tasks, and storage of the replies."""

    def __init__(self, asker: Asker, store: Store, tasks: list[AnswerTask], proven: bool = False) -> None:
        """Start with all parts of all tasks unanswered; `proven`: this model has answered before."""
        self.asker, self.tasks = asker, tasks
        self.missing = [list(task.parts) for task in tasks]
        """Unanswered parts of each task."""
        self._store, self._lock = store, threading.Lock()  # a store is for one thread at a time
        self._requests: dict[int, Request] = {}
        self._values: list[dict[str, Part]] = [{} for _ in tasks]
        self._log = _Log(asker, tasks, proven=proven or len(store) > 0)

    def work(self, number: int) -> Iterator[PartReply]:
        """Yield replies or rejections for task `number`'s missing parts; pending parts have none."""
        task, parts = self.tasks[number], tuple(self.missing[number])
        answer = self.asker.key(task.cell.place, ANSWER)
        with self._lock:
            answer_part = None if ANSWER in parts or not self._store.has([answer])[0] else self._store.parts([answer])[0]
        missing = list(parts)
        try:
            request = self._requests[number] = self.asker.request(task.cell.place, parts, answer_part)
            for outcome in self.asker.model.parts(request, self.asker.decoding):
                missing.remove(outcome.part)
                value, reason = undefine_invalid(outcome.part, outcome.value)
                yield replace(outcome, value=value, reason="; ".join(filter(None, (outcome.reason, reason))))
        except ReplyPendingError:  # a model that does not look out for it goes on from here when the reply has come
            return
        except RequestRejectedError as error:  # of what had to be known before the rest could be asked for
            yield from (PartReply(part, Part(), str(error), True) for part in missing)

    def take(self, outcomes: list[tuple[int, PartReply]]) -> None:
        """Mark (task number, reply) pairs answered; store all but rejected ones, left to `finish`."""
        for number, outcome in outcomes:
            self._values[number][outcome.part] = outcome.value
            self.missing[number].remove(outcome.part)
        self._keep([(number, outcome) for number, outcome in outcomes if not outcome.rejected])
        self._log.take(outcomes)

    def rejection_message(self) -> str:
        """Return a message if the model never answered and rejected its first samples, else ""."""
        return self._log.rejection_message()

    def logprobs_warning(self) -> str:
        """Return a warning if none of the first answers has the needed log-probabilities, else ""."""
        return self._log.logprobs_warning()

    def finish(self) -> None:
        """Store the rejected answer parts as undefined, after all others are answered."""
        self._keep(self._log.rejected)  # not before: what one run refuses because it is set up wrongly, the next must ask again

    def write(self, **facts: Any) -> None:
        """Update the stage's counters, and append a line of `facts` to the server's record."""
        self._log.write(**facts)

    def _keep(self, outcomes: list[tuple[int, PartReply]]) -> None:
        if outcomes:
            keys = [
                # A signal's key holds the answer it is about, which came with the same task: hence `_values` of all its parts so far.
                computed_keys(self.asker, self._requests[number], self.tasks[number].cell.place, self._values[number])[t.part]
                for number, t in outcomes
            ]
            with self._lock:
                self._store.put(keys, [t.part for _, t in outcomes], [t.value for _, t in outcomes])
            for number, outcome in outcomes:
                if outcome.part == ANSWER and outcome.value.text:
                    status.tell_answer(self._requests[number].question, outcome.value.text)


class _Log:
    """Undefined parts with their reasons, and what the server says about itself."""

    def __init__(self, asker: Asker, tasks: list[AnswerTask], proven: bool) -> None:
        self.asker, self.tasks, self.proven = asker, tasks, proven
        self.rejected: list[tuple[int, PartReply]] = []
        self._undefined: list[dict[str, str]] = []
        self._answered = 0
        self._without_logprobs = 0
        self._has_logprobs = "token_logprobs" not in asker.needs

    def take(self, outcomes: list[tuple[int, PartReply]]) -> None:
        for place, outcome in outcomes:
            if outcome.rejected:
                self.rejected.append((place, outcome))
            else:
                self._answered += 1
            if outcome.part == ANSWER and outcome.value.text:
                self._has_logprobs |= outcome.value.logprobs is not None
                self._without_logprobs += outcome.value.logprobs is None
            if outcome.reason:
                self._tell(self.tasks[place].cell.place, outcome)

    def rejection_message(self) -> str:
        refused = {place for place, _ in self.rejected}
        # By samples, not parts: one question with ten draws must not count as ten failures.
        if self.proven or self._answered or len(refused) < min(MAX_FAILURES_IN_A_ROW, len(self.tasks)):
            return ""
        return f"every request was rejected ({len(refused)} samples); the first: {self.rejected[0][1].reason}"

    def logprobs_warning(self) -> str:
        if self.proven or self._has_logprobs or self._without_logprobs < MAX_WITHOUT_LOGPROBS:
            return ""
        return (
            f"none of the first {self._without_logprobs} answers has log-probabilities, which the spec's `logprobs` asks for; `leave_out:` "
            "what reads them, or run again to go on without them"
        )

    def _tell(self, place: Place, outcome: PartReply) -> None:
        where = {
            "dataset": self.asker.datasets[place.dataset].name,
            "sample": self.asker.name(place),
            "variant": self.asker.variants[place.variant].name,
            "part": outcome.part,
        }
        self._undefined.append({**where, "reason": outcome.reason, **({"rejected": "yes"} if outcome.rejected else {})})
        name = "rejected" if outcome.rejected else f"undefined {outcome.part}"
        self.asker.stage.count(**{name: 1})
        if len(self._undefined) <= MAX_LINES:
            print(f"{self.asker.stage.key}: {' '.join(where.values())}: undefined: {outcome.reason}", file=sys.stderr, flush=True)

    def write(self, **more: Any) -> None:
        model, stage = self.asker.model, self.asker.stage
        stage.count(**Counter({k: n for k, n in (model.counters + model.client.counters).items() if n}))
        path = server_record(stage)
        facts: dict[str, Any] = {
            "model": model.client.model,
            "base_url": model.client.base_url,
            "served": dict(model.served),
            "tokens": dict(model.client.tokens),
            "dollars": round(model.client.budget.spent, 6) if model.client.server.price else None,
            "undefined": self._undefined,
            **more,
        }
        Journal(path, durable=False).append(json.dumps(facts, sort_keys=True).encode() + b"\n")
        if len(self._undefined) > MAX_LINES:
            print(f"{stage.key}: and {len(self._undefined) - MAX_LINES} more undefined; all are in {path}", file=sys.stderr, flush=True)


def server_record(stage: Stage) -> Path:
    """Return the path of a stage's local file with a line per run about the server."""
    return LOCAL / "runs" / stage.spec / f"{stage.name}.served.jsonl"
