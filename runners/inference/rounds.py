"""Answers from a server's batch API, in rounds: all requests that can be made now are sent together.

A signal about an answer waits for the answer, so a stage with signals takes two rounds, each of up to a day. A killed or interrupted run
leaves its batches at the server, and the next one resumes them (`qualm.runners.inference.waiting`). Requests and keys are those
of `qualm.runners.inference.remote`.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from qualm.runners.contracts.models import PartReply
from qualm.runners.inference.exchange import BatchExchange
from qualm.runners.inference.remote import Asking
from qualm.runners.inference.waiting import JOURNAL, Sent, Waiting, folder_of
from qualm.runners.runtime.progress import Advance, progress
from qualm.runners.runtime.stage import StageError
from qualm.runners.servers.client import FatalRequestError, RequestFailedError, ServerError
from qualm.runners.servers.rate_limits import MAX_PAUSE

if TYPE_CHECKING:
    from qualm.runners.data.answers import Store
    from qualm.runners.inference.batch_plan import AnswerTask
    from qualm.runners.inference.requests import Asker

SLOWER = 1.5
"""Factor from one pause between looks at the batches to the next, up to `MAX_PAUSE`."""


def ask_in_batches(asker: Asker, store: Store, tasks: list[AnswerTask]) -> None:
    """Ask a server for all missing answer parts by its batch API, and store the replies.

    Raises:
        StageError: the server, or every request, failed; answers are stored, open batches stay with the server.
    """
    if not tasks:
        return
    stage, client = asker.stage, asker.model.client
    waiting = Waiting(folder_of(stage.settings.store, stage.key))
    if not waiting.open():
        raise StageError(f"another run is waiting for the batches in {waiting.folder}; let it end, or stop it, and run again")
    exchange = BatchExchange(client, waiting, lambda number, part: asker.key(tasks[number].cell.place, part), stage.key)
    rounds = _Rounds(Asking(asker, store, tasks), exchange)
    client.exchange = exchange
    try:
        with progress(stage.settings, "asking", sum(len(task.parts) for task in tasks)) as advance:
            exchange.resume()
            while rounds.ask(advance):
                rounds.wait()
        rounds.finish()
        waiting.clear()
    except (ServerError, FatalRequestError) as error:
        text = str(error) if isinstance(error, ServerError) else f"{client.name}: {error}"
        raise StageError(f"{text}. Replies that came are in {waiting.folder}, and batches on their way stay at the server") from None
    except KeyboardInterrupt:
        for batch in waiting.open_batches():
            print(
                f"{stage.key}: batch {batch.id or batch.name} stays at the server; run again to go on with it", file=sys.stderr, flush=True
            )
        raise
    finally:
        client.exchange = None
        client.counters.update(exchange.counters)
        client.close()
        rounds.asking.write(batches=[{"id": b.id, "requests": len(b.keys), "status": b.status or "open"} for b in exchange.batches])
        waiting.close()


class _Rounds:
    """Rounds of asking and waiting until no part is missing."""

    def __init__(self, asking: Asking, exchange: BatchExchange) -> None:
        self.asking, self.exchange = asking, exchange
        self._failed: dict[int, str] = {}
        """Tasks with a part that failed at every try."""

    def ask(self, advance: Advance) -> bool:
        """Store the replies that came, send a batch; return whether more replies are to come.

        Raises:
            ServerError: the server rejected every request.
        """
        exchange, asking = self.exchange, self.asking
        numbers = [n for n, parts in enumerate(asking.missing) if parts and n not in self._failed and exchange.is_ready(n)]
        exchange.items = numbers
        for outcomes in exchange.client.pooled(numbers, self._work, "sample"):
            for number, replies in ((numbers[place], replies) for place, replies in outcomes):
                asking.take([(number, reply) for reply in replies])
                advance(len(replies))
        if reason := asking.rejection_message():
            raise ServerError(f"{exchange.client.name}: {reason}")
        exchange.send()
        return any(parts and number not in self._failed for number, parts in enumerate(asking.missing))

    def wait(self) -> None:
        client, pause = self.exchange.client, self.exchange.client.server.pause
        batches = self.exchange.needed() or self.exchange.waiting.open_batches()
        if not batches:
            raise FatalRequestError("requests are left that no batch holds; run again")
        while not self._look(batches):
            time.sleep(pause)
            pause = min(pause * SLOWER, max(MAX_PAUSE, client.server.pause))

    def finish(self) -> None:
        if self._failed:
            number, why = next(iter(self._failed.items()))
            total = len(self.asking.tasks)
            raise ServerError(
                f"{self.exchange.client.name}: {len(self._failed)} of {total} samples failed; sample {number + 1}: {why}; what was "
                "answered is kept, run again to go on"
            )
        self.asking.finish()

    def _look(self, batches: list[Sent]) -> bool:
        # A list, not a generator: every batch is looked at, also after one that has ended.
        ended = [self.exchange.poll(batch) for batch in batches]
        return any(ended)

    def _work(self, number: int) -> list[list[PartReply]]:
        """Return [the replies to task `number`], or [] if none came; note why a request failed.

        The inner list is stored at once.
        """
        replies: list[PartReply] = []
        try:
            for reply in self.asking.work(number):
                replies.append(reply)
        except RequestFailedError as error:
            self._failed[number] = str(error)
        return [replies] if replies else []


def warn_of_open_batches(store: str, stage: str) -> None:
    """Print a warning per open batch of a stage not waited for; none if another run has it."""
    waiting = Waiting(folder_of(store, stage))
    if not (waiting.folder / JOURNAL).exists() or not waiting.open():
        return
    try:
        for batch in waiting.open_batches():
            what = f"batch {batch.id or batch.name} of {len(batch.keys)} requests is on its way, and its replies are not waited for"
            print(f"{stage}: {what}; `batch = true` in qualm.toml goes on with it", file=sys.stderr, flush=True)
    finally:
        waiting.close()
