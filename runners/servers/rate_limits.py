"""Pauses between retries, rate limits, and the budget."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from qualm.runners.runtime.server_config import Price
from qualm.runners.runtime.spending_limit import WAIT, RunLimit, SpendingLimit

MAX_PAUSE, MAX_SERVER_PAUSE = 60.0, 600.0
"""Maximum seconds of a pause by our rule, and of one that a server asks for."""


@dataclass(frozen=True)
class RetryPolicy:
    """Number of retries and the pauses before them."""

    retries: int
    pause: float

    def seconds_before(self, attempt: int, retry_after: float | None) -> float:
        """Return seconds before retry `attempt`: a random pause, or `retry_after` if longer.

        At most MAX_SERVER_PAUSE.
        """
        # At least half of the pause, and by chance: clients that failed together would else come back together.
        longest = min(self.pause * 2 ** (attempt - 1), MAX_PAUSE)
        own: float = longest * random.uniform(0.5, 1.0)  # noqa: S311 - chance only keeps clients apart
        return own if retry_after is None else min(max(retry_after, own), MAX_SERVER_PAUSE)


class RateLimiter:
    """Scheduler of requests within limits per minute: tells how long to wait.

    Safe for several threads.
    """

    def __init__(self, requests_per_minute: float, tokens_per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without reservations.

        Args:
            requests_per_minute: per minute; 0 = no limit.
            tokens_per_minute: per minute; 0 = no limit.
            clock: seconds.
        """
        self._request = 60 / requests_per_minute if requests_per_minute else 0.0
        self._token = 60 / tokens_per_minute if tokens_per_minute else 0.0
        self._clock = clock
        self._free = clock()
        self._lock = threading.Lock()

    def reserve(self, tokens: int) -> float:
        """Reserve the next slot for a request of about `tokens`; return the seconds to wait."""
        with self._lock:
            now = self._clock()
            start = max(now, self._free)
            # The slower of the two limits decides; whoever comes next begins where this request has been paid for.
            self._free = start + max(self._request, tokens * self._token)
            return start - now

    def correct(self, tokens: int) -> None:
        """Add `tokens`, which may be negative, to a reservation that was wrong by so many."""
        with self._lock:
            self._free = min(self._free + tokens * self._token, max(self._free, self._clock() + MAX_SERVER_PAUSE))

    def pause(self, seconds: float) -> None:
        """Delay all later requests by `seconds`, at most MAX_SERVER_PAUSE, as the server asked."""
        with self._lock:
            self._free = max(self._free, self._clock() + min(seconds, MAX_SERVER_PAUSE))


POLL_SECONDS = 0.2
"""Seconds between checks of what other processes have settled."""


class Budget:
    """Money spent by this run, and reserved for running requests; thread-safe."""

    def __init__(self, price: Price | None, cap_dollars: float, limit: SpendingLimit | None = None) -> None:
        """Start without spending.

        Args:
            price: None where it is not known; nothing is counted then.
            cap_dollars: 0 = none.
            limit: keeps caps beyond this run, in the place of `cap_dollars`; None = this run alone.
        """
        self.price, self.cap = price or Price(0.0, 0.0), cap_dollars
        self.spent = 0.0
        self._limit: SpendingLimit = limit if limit is not None and price is not None else RunLimit(cap_dollars)
        self._change = threading.Condition()

    def hold(self, dollars: float, stopped: Callable[[], bool] = lambda: False, key: str = "") -> str:
        """Reserve dollars when there is room; return the key, or WAIT if stopped; else raise.

        Raises:
            SpendingLimitError: there never will be room.
        """
        while (key := self._limit.hold(dollars, key)) == WAIT and not stopped():
            # Woken when this process settles; others can only be looked at now and then.
            with self._change:
                self._change.wait(POLL_SECONDS)
        return key

    def settle(self, key: str, spent: float) -> None:
        self._limit.settle(key, spent)
        with self._change:
            self.spent += spent
            self._change.notify_all()

    def holds(self, key: str) -> bool:
        """Return whether the reservation with this key is not settled yet."""
        return self._limit.holds(key)

    def room(self) -> float:
        """Return the dollars that can be reserved now."""
        return self._limit.room()
