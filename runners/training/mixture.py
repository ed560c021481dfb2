"""Draw the examples of each step: a pure function of seed and step, on any number of devices."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry.scenes.world import stream


class Mixture:
    """Endless passes over pools of examples, reshuffled for every pass."""

    def __init__(
        self,
        pools: Mapping[str, Sequence[Any]],
        weights: Mapping[str, float],
        seed: int,
        total: int,
        together: int = 1,
        alike: Callable[[Any], Any] = id,
    ) -> None:
        """Plan the draws of all steps.

        Args:
            weights: relative frequencies of the pools.
            together: number of examples with equal `alike` that follow each other.
        """
        self.pools, self.seed, self.together = pools, seed, together
        self._kinds = {name: _kinds(map(alike, pool)) for name, pool in pools.items()} if together > 1 else {}
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
        """Return the examples of a step; the last step may be smaller."""
        return [self[i] for i in range(step * width, min((step + 1) * width, len(self)))]

    def drawn(self) -> dict[str, int]:
        """Count the examples drawn from each pool."""
        return {name: int((self._source == k).sum()) for k, name in enumerate(self.names)}

    def _shuffled(self, name: str, again: int) -> NDArray[np.int64]:
        rng = stream(self.seed, "mixture", name, again)
        order = rng.permutation(len(self.pools[name]))
        if self.together == 1:
            return order
        kinds = self._kinds[name][order]
        by_kind = order[np.argsort(kinds, kind="stable")]
        starts = np.flatnonzero(np.diff(np.sort(kinds), prepend=-1))
        inside = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
        clusters = np.split(by_kind, np.flatnonzero(inside % self.together == 0)[1:])
        return np.concatenate([clusters[k] for k in rng.permutation(len(clusters))])


def _kinds(values: Iterable[Any]) -> NDArray[np.int64]:
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)


def _quota(weights: NDArray[np.float64], total: int) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """Return the pool of every place, and the number of earlier draws from it."""
    shares = weights / weights.sum()
    source, turn = np.zeros(total, np.int16), np.zeros(total, np.int64)
    drawn = np.zeros(len(shares), np.int64)
    for place in range(total):
        pool = int(np.argmax(shares * (place + 1) - drawn))
        source[place], turn[place] = pool, drawn[pool]
        drawn[pool] += 1
    return source, turn
