"""Spending limits as a client sees them: money is set aside before a request is sent, and settled when its price is known."""

import math
import threading
from typing import Protocol

WAIT = ""
"""In the place of a key: no room now, perhaps later."""


class OverCap(Exception):
    """A request that passes a spending limit whatever those on their way cost. The message says which, and what was spent."""


class SpendingLimit(Protocol):
    """Holds a spending limit. Safe for several threads."""

    def hold(self, amount: float, key: str = "") -> str:
        """Set dollars aside and return their key, or WAIT; a held key stays as it is.

        Raises:
            OverCap: there never will be room.
        """

    def settle(self, key: str, spent: float) -> None:
        """What was set aside has cost so much."""

    def holds(self, key: str) -> bool:
        """Whether it is still set aside."""

    def room(self) -> float:
        """Dollars that could be set aside now; infinite without a limit."""


class RunLimit:
    """The limit of one run; `qualm.runners.runtime.spending` has one over all runs."""

    def __init__(self, cap: float) -> None:
        """`cap`: dollars; 0 = no limit."""
        self._cap, self._spent, self._held, self._count = cap, 0.0, dict[str, float](), 0
        self._lock = threading.Lock()

    def hold(self, amount: float, key: str = "") -> str:
        with self._lock:
            if key in self._held:
                return key
            if self._cap and self._spent + amount > self._cap:
                so_far = f"${self._spent:.4f} spent; the next request may cost ${amount:.4f}"
                raise OverCap(f"the spending limit is reached (max_spend = ${self._cap:g}, {so_far}); raise it")
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
