"""Answers from a server: many requests on their way at a time, each stored as soon as it is answered.

What `qualm.runners.inference.local` is for models on a device. A killed run loses what was on its way, and no more. A request that the
server will not answer leaves its part of the answer undefined, with the reason; the others go on.
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
from qualm.runners.inference.keys import made_keys
from qualm.runners.runtime.journal import Journal
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.stage import LOCAL, Stage, StageError
from qualm.runners.servers.client import GIVE_UP_AFTER, Rejected, ServerError
from qualm.runners.store.answers import Store, sound

if TYPE_CHECKING:
    from qualm.runners.inference.batch_plan import Task
    from qualm.runners.inference.requests import Asker, Place

SHOWN = 10
"""So many undefined answers are told on standard error; the run's record has all."""


def ask_all(asker: Asker, store: Store, tasks: list[Task]) -> None:
    """Have a server answer all that is missing, and store it.

    Raises:
        StageError: the server, or every single request, failed; what was answered is stored.
    """
    lock = threading.Lock()  # a store is for one thread at a time
    asked: dict[int, Request] = {}
    told_parts: list[dict[str, Part]] = [{} for _ in tasks]
    numbers = {id(task): number for number, task in enumerate(tasks)}
    model, stage = asker.model, asker.stage
    log = _Log(asker, tasks, known=len(store) > 0)

    def work(task: Task) -> Iterator[PartReply]:
        answer = asker.key(task.cell.place, ANSWER)
        with lock:
            given = None if ANSWER in task.parts or not store.has([answer])[0] else store.parts([answer])[0]
        missing = list(task.parts)
        try:
            request = asked[numbers[id(task)]] = asker.request(task.cell.place, task.parts, given)
            for told in model.parts(request, asker.decoding):
                missing.remove(told.part)
                value, reason = sound(told.part, told.value)
                yield replace(told, value=value, reason="; ".join(filter(None, (told.reason, reason))))
        except Rejected as error:  # of what had to be known before the rest could be asked for
            yield from (PartReply(part, Part(), str(error), True) for part in missing)

    def keep(told: list[tuple[int, PartReply]]) -> None:
        if told:
            keys = [made_keys(asker, asked[number], tasks[number].cell.place, told_parts[number])[t.part] for number, t in told]
            with lock:
                store.put(keys, [t.part for _, t in told], [t.value for _, t in told])

    if not tasks:
        return
    try:
        with progress(stage.settings, "asking", sum(len(task.parts) for task in tasks)) as advance:
            for made in model.line.pooled(tasks, work, "sample"):
                for number, told in made:
                    told_parts[number][told.part] = told.value
                keep([(place, told) for place, told in made if not told.rejected])
                log.take(made)
                advance(len(made))
                log.check()
    except ServerError as error:
        raise StageError(str(error)) from None
    else:
        keep(log.rejected)  # not before: what one run refuses because it is set up wrongly, the next must ask again
    finally:
        log.write()


class _Log:
    """What was undefined and why, and what the server said of itself."""

    def __init__(self, asker: Asker, tasks: list[Task], known: bool) -> None:
        """`known`: this model has answered before."""
        self.asker, self.tasks, self.known = asker, tasks, known
        self.rejected: list[tuple[int, PartReply]] = []
        self._undefined: list[dict[str, str]] = []
        self._answered = 0

    def take(self, made: list[tuple[int, PartReply]]) -> None:
        for place, told in made:
            if told.rejected:
                self.rejected.append((place, told))
            else:
                self._answered += 1
            if told.reason:
                self._tell(self.tasks[place].cell.place, told)

    def check(self) -> None:
        """Stop where nothing was ever answered: more likely our fault than theirs.

        Raises:
            StageError: so it is.
        """
        refused = {place for place, _ in self.rejected}
        if not self.known and not self._answered and len(refused) >= min(GIVE_UP_AFTER, len(self.tasks)):
            first = self.rejected[0][1].reason
            raise StageError(f"{self.asker.model.line.name}: every request was rejected ({len(refused)} samples); the first so: {first}")

    def _tell(self, place: Place, told: PartReply) -> None:
        where = {
            "dataset": self.asker.datasets[place.dataset].name,
            "sample": self.asker.name(place),
            "variant": self.asker.variants[place.variant].name,
            "part": told.part,
        }
        self._undefined.append({**where, "reason": told.reason, **({"rejected": "yes"} if told.rejected else {})})
        name = "rejected" if told.rejected else f"undefined {told.part}"
        self.asker.stage.count(**{name: 1})
        if len(self._undefined) <= SHOWN:
            print(f"{self.asker.stage.key}: {' '.join(where.values())}: undefined: {told.reason}", file=sys.stderr, flush=True)

    def write(self) -> None:
        """A line in the record of this stage's runs, and counters."""
        model, stage = self.asker.model, self.asker.stage
        stage.count(**Counter({k: n for k, n in (model.counters + model.line.counters).items() if n}))
        path = record(stage)
        told: dict[str, Any] = {
            "model": model.line.model,
            "base_url": model.line.base_url,
            "served": dict(model.served),
            "tokens": dict(model.line.tokens),
            "dollars": round(model.line.budget.spent, 6) if model.line.server.price else None,
            "undefined": self._undefined,
        }
        Journal(path, durable=False).append(json.dumps(told, sort_keys=True).encode() + b"\n")
        if len(self._undefined) > SHOWN:
            print(f"{stage.key}: and {len(self._undefined) - SHOWN} more undefined; all are in {path}", file=sys.stderr, flush=True)


def record(stage: Stage) -> Path:
    """Where a line for every run says what a server did: a local file, never an input of anything."""
    return LOCAL / "runs" / stage.spec / f"{stage.name}.served.jsonl"
