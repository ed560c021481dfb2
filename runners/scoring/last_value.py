"""Cache of the last computed value, for large values that are read many times in a row."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LastValue(Generic[Value]):
    """Cache of one value, replaced when another key is asked for."""

    def __init__(self) -> None:
        self._entry: tuple[object, Hashable, Value] | None = None

    def get(self, key: object, compute: Callable[[], Value], second_key: Hashable = None) -> Value:
        """Return the value of `key` (identity) and `second_key` (equality), computed if new."""
        # The entry holds the key itself: were it given up, another object could get its place in memory and be taken for it.
        if self._entry is None or self._entry[0] is not key or self._entry[1] != second_key:
            self._entry = key, second_key, compute()
        return self._entry[2]
