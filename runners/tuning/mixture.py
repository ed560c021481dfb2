"""Which examples a step trains on: a pure function of the seed and the step, whatever the number of devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.scenes.world import stream


class Mixture:
    """Endless passes over pools of examples, each pool shuffled anew for every pass of its own."""

    def __init__(self, pools: Mapping[str, Sequence[Any]], weights: Mapping[str, float], seed: int, total: int) -> None:
        """
        Args:
            pools: examples by name, none of them empty.
            weights: how often each pool is drawn from; only their ratios matter.
            seed: of the order.
            total: how many examples are drawn in all.
        """
        self.pools, self.seed = pools, seed
        self.names = sorted(pools)
        self._source, self._turn = _quota(np.array([weights[n] for n in self.names], float), total)
        self._order = cache(self._shuffled)

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, place: int) -> Any:
        name, turn = self.names[self._source[place]], int(self._turn[place])
        pool = self.pools[name]
        again, index = divmod(turn, len(pool))
        return pool[self._order(name, again)[index]]

    def batch(self, step: int, width: int) -> list[Any]:
        """The examples of a step; the last one may be smaller."""
        return [self[i] for i in range(step * width, min((step + 1) * width, len(self)))]

    def drawn(self) -> dict[str, int]:
        """How many examples come from each pool."""
        return {name: int((self._source == k).sum()) for k, name in enumerate(self.names)}

    def _shuffled(self, name: str, again: int) -> NDArray[np.int64]:
        return stream(self.seed, "mixture", name, again).permutation(len(self.pools[name]))


def _quota(weights: NDArray[np.float64], total: int) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """For every place: the pool it is drawn from, and how many were drawn from that before. Always as near to the shares as can be."""
    shares = weights / weights.sum()
    source, turn = np.zeros(total, np.int16), np.zeros(total, np.int64)
    drawn = np.zeros(len(shares), np.int64)
    for place in range(total):
        pool = int(np.argmax(shares * (place + 1) - drawn))
        source[place], turn[place] = pool, drawn[pool]
        drawn[pool] += 1
    return source, turn
