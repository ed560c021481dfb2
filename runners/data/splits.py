"""Decides which rows of a data set models answer, and which answers are scored; nothing else does.

A data set's scored rows are those of the splits that the spec names for it (`splits:`); else those of `test`, if it has any;
else all but `train`. What is asked is what is scored and, where a method chooses thresholds on held-out answers, `val`.
Lost without it: a score over rows that were trained on, or over other rows in one stage than in the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from qualm.runners.data.aligned import Samples, read_samples
from qualm.runners.runtime.stage import Stage, StageError

TRAIN, VALIDATION, TEST = "train", "val", "test"


@dataclass(frozen=True)
class SplitRule:
    """What a stage's parameters say about one data set."""

    splits: tuple[str, ...] | None = None
    """The spec's own choice; None = by the rule above."""
    also: tuple[str, ...] = ()
    """Splits whose rows are asked and not scored."""

    def scored(self, name: str, split: pa.ChunkedArray) -> pa.ChunkedArray:
        """Which rows are scored, as booleans.

        Raises:
            StageError: none are; or the spec names a split that the data set does not have.
        """
        return self._rows(split, self._scored(name, split))

    def asked(self, name: str, split: pa.ChunkedArray) -> pa.ChunkedArray:
        """Which rows models answer."""
        return self._rows(split, {*self._scored(name, split), *self.also})

    def _scored(self, name: str, split: pa.ChunkedArray) -> set[str]:
        there = set(pc.unique(pc.fill_null(split, "")).to_pylist())
        names = ", ".join(sorted(f"'{s}'" for s in there))
        if self.splits is not None:
            missing = [s for s in self.splits if s not in there]
            if missing:
                raise StageError(f"dataset {name}: splits: it has no rows of '{missing[0]}'; its splits are {names}")
            return set(self.splits)
        splits = {TEST} if TEST in there else there - {TRAIN}
        if not splits:
            raise StageError(
                f"dataset {name}: all its rows are of the split '{TRAIN}'; to be answered nonetheless it needs `splits: [{TRAIN}]`"
            )
        return splits

    @staticmethod
    def _rows(split: pa.ChunkedArray, splits: set[str]) -> pa.ChunkedArray:
        return pc.is_in(pc.fill_null(split, ""), value_set=pa.array(sorted(splits), pa.string()))


def rule(params: dict[str, Any], dataset: str) -> SplitRule:
    """The rule of one data set in a stage's parameters: `splits` by data set where the spec has them, `also` for all."""
    chosen: Sequence[str] | None = params.get("splits", {}).get(dataset)
    return SplitRule(tuple(chosen) if chosen is not None else None, tuple(params.get("also", ())))


def read_scored(stage: Stage, name: str, folder: str) -> Samples:
    """The scored samples of a data set; `Samples.kept` leaves answers to its other rows out of a table."""
    samples = read_samples(name, folder)
    scored = rule(stage.params, name).scored(name, samples.table["split"])
    if pc.all(scored).as_py():
        return samples
    return Samples(name, samples.table.filter(scored), samples.table.filter(pc.invert(scored))["sample_id"].combine_chunks())
