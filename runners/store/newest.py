"""What was computed of the newest object only: it is asked for many times in a row, and its value may be large."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Newest(Generic[Value]):
    """One value, kept until it is asked for with another key."""

    def __init__(self) -> None:
        self._entry: tuple[object, Hashable, Value] | None = None

    def of(self, key: object, compute: Callable[[], Value], also: Hashable = None) -> Value:
        """The value kept of a key, or else the one that is computed, which takes its place.

        Args:
            key: it is the same if it is the same object, whatever it holds.
            compute: its value.
            also: a part of the key that is the same if it is equal.
        """
        # The entry holds the key itself: were it given up, another object could get its place in memory and be taken for it.
        if self._entry is None or self._entry[0] is not key or self._entry[1] != also:
            self._entry = key, also, compute()
        return self._entry[2]
