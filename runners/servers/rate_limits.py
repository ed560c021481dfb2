"""Limits on requests: pauses between retries, rates per minute, and the budget."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from qualm.runners.servers.config import Price
from qualm.runners.servers.spending_limit import WAIT, RunLimit, SpendingLimit

LONGEST_PAUSE, LONGEST_ASKED = 60.0, 600.0
"""Seconds of a pause of ours, and of one that a server asks for."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often and after what pauses a request is tried again."""

    retries: int
    pause: float

    def before(self, attempt: int, retry_after: float | None) -> float:
        """Seconds before try `attempt` (1 is the first repetition); what the server asks for comes first, within bounds."""
        # At least half of the pause, and by chance: clients that failed together would else come back together.
        longest = min(self.pause * 2 ** (attempt - 1), LONGEST_PAUSE)
        own: float = longest * random.uniform(0.5, 1.0)  # noqa: S311 - chance only keeps clients apart
        return own if retry_after is None else min(max(retry_after, own), LONGEST_ASKED)


class RateLimiter:
    """Requests and tokens per minute, spread evenly: a request begins when all before it have been paid for in time.

    Safe for several threads.
    """

    def __init__(self, requests: float, tokens: float, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            requests: per minute; 0 = no limit.
            tokens: per minute; 0 = no limit.
            clock: seconds.
        """
        self._request, self._token = 60 / requests if requests else 0.0, 60 / tokens if tokens else 0.0
        self._clock = clock
        self._free = clock()
        self._lock = threading.Lock()

    def reserve(self, tokens: int) -> float:
        """Take the next place for a request of about so many tokens; seconds until it comes."""
        with self._lock:
            now = self._clock()
            start = max(now, self._free)
            # The slower of the two limits decides; whoever comes next begins where this request has been paid for.
            self._free = start + max(self._request, tokens * self._token)
            return start - now

    def correct(self, tokens: int) -> None:
        """So many tokens more (or fewer, where negative) than was reserved."""
        with self._lock:
            self._free = min(self._free + tokens * self._token, max(self._free, self._clock() + LONGEST_ASKED))

    def rest(self, seconds: float) -> None:
        """Nobody begins for so long: the server asked for it."""
        with self._lock:
            self._free = max(self._free, self._clock() + min(seconds, LONGEST_ASKED))


POLL = 0.2
"""Seconds between looks at what other processes have settled."""


class Budget:
    """Dollars: what this run spent, and what requests on their way may still cost. Safe for several threads."""

    def __init__(self, price: Price | None, cap: float, limit: SpendingLimit | None = None) -> None:
        """
        Args:
            price: None where it is not known; nothing is counted then.
            cap: 0 = none.
            limit: keeps caps beyond this run, in the place of `cap`; None = this run alone.
        """
        self.price, self.cap = price or Price(0.0, 0.0), cap
        self.spent = 0.0
        self._limit: SpendingLimit = limit if limit is not None and price is not None else RunLimit(cap)
        self._change = threading.Condition()

    def hold(self, amount: float, stopped: Callable[[], bool] = lambda: False, key: str = "") -> str:
        """Set aside, once those on their way leave room for it; a key to settle it by (this one, if it is given), or WAIT where the run
        was stopped meanwhile.

        Raises:
            OverCap: it would pass the cap whatever they cost.
        """
        while (key := self._limit.hold(amount, key)) == WAIT and not stopped():
            # Woken when this process settles; others can only be looked at now and then.
            with self._change:
                self._change.wait(POLL)
        return key

    def settle(self, key: str, spent: float) -> None:
        self._limit.settle(key, spent)
        with self._change:
            self.spent += spent
            self._change.notify_all()

    def holds(self, key: str) -> bool:
        """Whether it is still set aside."""
        return self._limit.holds(key)

    def room(self) -> float:
        """Dollars that could be set aside now."""
        return self._limit.room()
