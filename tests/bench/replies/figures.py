"""A measured agreement and its bar."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

REPLIES = Path(__file__).parents[4] / "shared" / "fixtures" / "replies"
"""Real replies beside the repository; they are not part of it."""


@dataclass(frozen=True)
class Figure:
    """A share that was measured on `n` replies, beside the bar that it is held to."""

    name: str
    value: float
    n: int
    at_least: float | None = None
    at_most: float | None = None

    @property
    def holds(self) -> bool:
        """State that the share is on the right side of its bar; a share without a bar is information."""
        return (self.at_least is None or self.value >= self.at_least) and (self.at_most is None or self.value <= self.at_most)
