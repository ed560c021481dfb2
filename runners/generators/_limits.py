"""What keeps a run of requests within bounds: how long to wait before trying again, and how much may be spent."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass

from runners.generators import Request

LONGEST_PAUSE = 60.0
IMAGE_TOKENS = 2048
"""What a picture is taken to cost before it is known."""


@dataclass(frozen=True)
class Patience:
    """How often and after what pauses a request is tried again."""

    retries: int
    pause: float

    def before(self, attempt: int, asked: float | None) -> float:
        """Seconds before try `attempt` (1 is the first repetition); what the server asks for comes first, within bounds."""
        longest = min(self.pause * 2 ** (attempt - 1), LONGEST_PAUSE)
        own: float = longest * random.uniform(0.5, 1.0)  # noqa: S311 - chance only keeps clients apart
        return own if asked is None else min(max(asked, own), LONGEST_PAUSE)


class Budget:
    """Dollars of this run: what was spent, and what requests on their way may still cost. Safe for several threads."""

    def __init__(self, price_in: float, price_out: float, cap: float | None) -> None:
        self.price_in, self.price_out, self.cap = price_in, price_out, cap
        self.spent = 0.0
        self._held = 0.0
        self._change = threading.Condition()

    def cost(self, read: int, written: int) -> float:
        return (read * self.price_in + written * self.price_out) / 1e6

    def most(self, request: Request) -> float:
        """What one try can cost: a token has at least one byte."""
        read = sum(len(m.text.encode()) + 16 + IMAGE_TOKENS * len(m.images) for m in request.messages)
        return self.cost(read, request.max_new_tokens)

    def hold(self, amount: float) -> bool:
        """Set aside, once those on their way leave room for it; False where it would pass the cap whatever they cost."""
        with self._change:
            while self.cap is not None and self.spent + self._held + amount > self.cap:
                if self.spent + amount > self.cap or self._held <= 1e-12:
                    return False
                self._change.wait()
            self._held += amount
            return True

    def settle(self, held: float, spent: float) -> None:
        with self._change:
            self._held -= held
            self.spent += spent
            self._change.notify_all()
