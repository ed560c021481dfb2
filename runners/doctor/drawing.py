"""Sample items by seed, independently of their order and evenly over strata."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

Stratum = TypeVar("Stratum", bound=Hashable)
Item = TypeVar("Item")


class Lots(Generic[Stratum, Item]):
    """Random sample of each stratum: the items with the smallest random ranks."""

    def __init__(self, seed: int, most: int) -> None:
        self._seed, self._most = f"{seed} ".encode(), most
        self._heaps: dict[Stratum, list[tuple[int, Item]]] = {}
        self._ranks: dict[Stratum, set[int]] = {}

    def add(self, stratum: Stratum, key: bytes, item: Item) -> None:
        """Add an item under its key; repeated keys count once."""
        rank = -int.from_bytes(hashlib.sha256(self._seed + key).digest())
        heap, ranks = self._heaps.setdefault(stratum, []), self._ranks.setdefault(stratum, set())
        if rank in ranks or (len(heap) == self._most and rank < heap[0][0]):
            return
        ranks.add(rank)
        heapq.heappush(heap, (rank, item))  # ranks differ, so items are never compared
        if len(heap) > self._most:
            ranks.discard(heapq.heappop(heap)[0])

    def draw(self, total: int) -> dict[Stratum, list[Item]]:
        """Return `total` items, spread over the strata as evenly as possible."""
        shares = evenly({stratum: len(heap) for stratum, heap in self._heaps.items()}, total)
        return {
            stratum: [item for _, item in sorted(self._heaps[stratum], key=lambda lot: -lot[0])[:n]] for stratum, n in shares.items() if n
        }


def evenly(sizes: Mapping[Stratum, int], total: int) -> dict[Stratum, int]:
    """Divide a total over strata: all of small ones, equal numbers of the others.

    >>> evenly({"a": 3, "b": 100, "c": 100}, 23)
    {'a': 3, 'b': 10, 'c': 10}
    """
    shares: dict[Stratum, int] = {}
    for number, (stratum, size) in enumerate(sorted(sizes.items(), key=lambda item: item[1])):
        shares[stratum] = min(size, (total - sum(shares.values())) // (len(sizes) - number))
    return shares
