"""Spending limits: money is reserved before a request is sent, and settled when its cost is known."""

import math
import threading
from typing import Protocol

WAIT = ""
"""Returned instead of a key: no room now, perhaps later."""


class SpendingLimitError(Exception):
    """A request would exceed a spending limit; the message says which, and the amount spent."""


class SpendingLimit(Protocol):
    """Interface of a spending limit: reserve, then settle; thread-safe."""

    def hold(self, amount: float, key: str = "") -> str:
        """Reserve dollars; return the reservation's key, or "" (WAIT) if there is no room now.

        A key that is reserved already reserves nothing more.

        Raises:
            SpendingLimitError: there never will be room.
        """

    def settle(self, key: str, spent: float) -> None:
        """Replace the reservation `key` by `spent` dollars, the actual cost."""

    def holds(self, key: str) -> bool:
        """Return whether a reservation of this key is open."""

    def room(self) -> float:
        """Return the dollars that can be reserved now; infinite without a limit."""


class RunLimit:
    """Spending limit of one run, in memory."""

    def __init__(self, cap: float) -> None:
        """Take the cap in dollars; 0 = no limit."""
        self._cap, self._spent, self._held, self._count = cap, 0.0, dict[str, float](), 0
        self._lock = threading.Lock()

    def hold(self, amount: float, key: str = "") -> str:
        with self._lock:
            if key in self._held:
                return key
            if self._cap and self._spent + amount > self._cap:
                so_far = f"${self._spent:.4f} spent; the next request may cost ${amount:.4f}"
                raise SpendingLimitError(
                    f"the next request could exceed the spending limit (max_spend = ${self._cap:g}, {so_far}); raise it"
                )
            if self._cap and self._spent + sum(self._held.values()) + amount > self._cap:
                return WAIT
            self._count += 1
            key = key or str(self._count)
            self._held[key] = amount
            return key

    def settle(self, key: str, spent: float) -> None:
        with self._lock:
            del self._held[key]
            self._spent += spent

    def holds(self, key: str) -> bool:
        with self._lock:
            return key in self._held

    def room(self) -> float:
        with self._lock:
            return self._cap - self._spent - sum(self._held.values()) if self._cap else math.inf
