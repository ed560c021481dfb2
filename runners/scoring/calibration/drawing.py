"""Resamples in which calibrators are fitted anew."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Floats, Weights
from qualm.runners.scoring.bootstrap import Bootstrap

Ints = NDArray[np.int64]


class HeldDraws:
    """Resamples of a separate calibration split; the i-th goes with scored rows' resample i."""

    def __init__(self, groups: Ints, times: int, seed: int, *names: str) -> None:
        self.groups = groups
        self._resamples = Bootstrap(groups, times, seed, "calibrators", *names)

    @cached_property
    def _counts(self) -> Floats:
        return np.concatenate([np.empty((0, self._resamples.groups)), *(block.counts for block in self._resamples.blocks())])

    def weights(self, rows: Ints, times: int, start: int | None) -> Weights:
        """Return weights of some rows in `times` resamples from `start` on; all 1 if it is None."""
        counts = np.ones((times, self._resamples.groups)) if start is None else self._counts[start : start + times]
        return Weights(counts, self._resamples.group[rows])


class FirstResamples:
    """The first `times` of some resamples: refitting is repeated less often than summing."""

    def __init__(self, of: Any, times: int, jackknife: bool = True) -> None:
        self.of, self.groups, self.times, self._jackknife = of, of.groups, min(times, of.times), jackknife

    @property
    def whole(self) -> Any:
        whole = self.of.whole
        return self if whole is self.of else FirstResamples(whole, self.times)

    def groups_of(self, rows: NDArray[Any]) -> Ints:
        groups: Ints = self.of.groups_of(rows)
        return groups

    def blocks(self) -> Iterator[Weights]:
        left = self.times
        for block in self.of.blocks():
            if left <= 0:
                return
            yield Weights(block.counts[:left], block.group)
            left -= len(block.counts)

    def deletions(self) -> Iterator[Weights]:
        """Yield jackknife weights over all groups; none without `jackknife`."""
        deletions: Iterator[Weights] = self.of.deletions() if self._jackknife else iter(())
        return deletions
