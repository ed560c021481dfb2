"""Resamples in which calibrators are fitted anew."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Floats, Weights
from qualm.runners.scoring.bootstrap import Bootstrap

Ints = NDArray[np.int64]


class HeldDraws:
    """Resamples of whole groups of answers that are not among the scored ones: one for each of these' own resamples, drawn apart."""

    def __init__(self, groups: Ints, times: int, seed: int, *names: str) -> None:
        self.groups = groups
        self._resamples = Bootstrap(groups, times, seed, "calibrators", *names)

    @cached_property
    def _counts(self) -> Floats:
        return np.concatenate([np.empty((0, self._resamples.groups)), *(block.counts for block in self._resamples.blocks())])

    def weights(self, rows: Ints, times: int, start: int | None) -> Weights:
        """Return the weights of some rows in `times` resamples from `start` on; all 1 without a start."""
        counts = np.ones((times, self._resamples.groups)) if start is None else self._counts[start : start + times]
        return Weights(counts, self._resamples.group[rows])


class First:
    """The first of some resamples: a fit is made anew in fewer than a sum is."""

    def __init__(self, of: Any, times: int, jackknife: bool = True) -> None:
        """Take the first `times` resamples; without `jackknife` there are no deletions."""
        self.of, self.groups, self.times, self._jackknife = of, of.groups, min(times, of.times), jackknife

    @property
    def whole(self) -> Any:
        """Resamples of all rows of the dataset."""
        whole = self.of.whole
        return self if whole is self.of else First(whole, self.times)

    def groups_of(self, rows: NDArray[Any]) -> Ints:
        """Return the group of each of some rows."""
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
        """Yield the weights of a jackknife over all groups."""
        deletions: Iterator[Weights] = self.of.deletions() if self._jackknife else iter(())
        return deletions
