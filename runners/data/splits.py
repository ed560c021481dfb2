"""Rows of a dataset that models answer, and those that are scored.

Scored are the splits that the spec names for the dataset (`splits:`); else `test`, if it has any; else all but `train`. Models answer the
scored rows and, for methods that choose thresholds on held-out answers, `val`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry import VALIDATION
from qualm.runners.data.aligned import Samples, read_samples
from qualm.runners.data.calibration_split import calibration_rows
from qualm.runners.runtime.stage import Stage, StageError

TRAIN, TEST = "train", "test"
ASKED_BY = ("split", "category", "pair_id", "sample_id")
"""Columns that decide whether a row is answered."""


@dataclass(frozen=True)
class SplitRule:
    """Rule for which splits and rows of one dataset are scored and answered."""

    splits: tuple[str, ...] | None = None
    """Splits that the spec names; None for the default."""
    also: tuple[str, ...] = ()
    """Splits that are answered and not scored."""
    subset: tuple[int, int] | None = None
    """(rows per category, seed); None for all rows."""

    def scored(self, name: str, split: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a boolean column: the scored rows; raise StageError for none or unknown splits."""
        return self._rows(split, self._scored(name, split))

    def is_asked(self, name: str, table: pa.Table) -> pa.ChunkedArray:
        """Return a boolean column: True for the rows of dataset `name` that models answer."""
        mask = self._rows(table["split"], {*self._scored(name, table["split"]), *self.also})
        return mask if self.subset is None else pc.and_(mask, pa.array(choose_per_category(name, table, *self.subset)))

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
                f"dataset {name}: all its rows are in the split '{TRAIN}'; to have them answered all the same, write `splits: [{TRAIN}]`"
            )
        return splits

    @staticmethod
    def _rows(split: pa.ChunkedArray, splits: set[str]) -> pa.ChunkedArray:
        return pc.is_in(pc.fill_null(split, ""), value_set=pa.array(sorted(splits), pa.string()))


def split_rule(params: dict[str, Any], dataset: str) -> SplitRule:
    """Return the rule of one dataset from a stage's parameters `splits`, `also` and `subset`."""
    chosen: Sequence[str] | None = params.get("splits", {}).get(dataset)
    part = params.get("subset")
    subset = (part["per_category"], part["seed"]) if part else None
    return SplitRule(tuple(chosen) if chosen is not None else None, tuple(params.get("also", ())), subset)


def choose_per_category(dataset: str, table: pa.Table, per_category: int, seed: int) -> NDArray[np.bool_]:
    """Return a mask (n,) of up to `per_category` rows per category and split, pairs whole.

    Args:
        table: columns `ASKED_BY` of SAMPLES, splits whole.
    """
    units: dict[tuple[str, str], dict[str, list[int]]] = {}
    for row, sample in enumerate(table.select(ASKED_BY).to_pylist()):
        stratum = units.setdefault((sample["split"] or "", sample["category"] or ""), {})
        stratum.setdefault(sample["pair_id"] or sample["sample_id"], []).append(row)
    chosen = np.zeros(table.num_rows, dtype=bool)
    for stratum in units.values():
        left = per_category
        for unit in sorted(stratum, key=lambda u: hashlib.sha256(f"{seed}\n{dataset}\n{u}".encode()).digest()):
            if len(stratum[unit]) <= left:
                chosen[stratum[unit]] = True
                left -= len(stratum[unit])
    return chosen


def read_scored(stage: Stage, name: str, folder: str) -> Samples:
    """Read a dataset's scored samples; their `filter_table` drops rows about the others."""
    samples = read_samples(name, folder)
    scored = split_rule(stage.params, name).scored(name, samples.table["split"])
    if pc.all(scored).as_py():
        return samples
    return Samples(name, samples.table.filter(scored), samples.table.filter(pc.invert(scored))["sample_id"].combine_chunks())


def read_held(stage: Stage, name: str, folder: str) -> Samples:
    """Read a dataset's validation samples (split `val`) that are not scored."""
    samples = read_samples(name, folder)
    held = pc.and_(
        pc.equal(pc.fill_null(samples.table["split"], ""), VALIDATION),
        pc.invert(split_rule(stage.params, name).scored(name, samples.table["split"])),
    )
    return Samples(name, samples.table.filter(held), samples.table.filter(pc.invert(held))["sample_id"].combine_chunks())


def scored_rows(stage: Stage, samples: Samples) -> NDArray[np.bool_]:
    """Return a mask (n,) of the scored rows of a dataset."""
    return np.asarray(split_rule(stage.params, samples.name).scored(samples.name, samples.table["split"]).to_numpy(), dtype=bool)


def fit_rows(
    what: str, samples: Samples, scored: NDArray[np.bool_], options: Mapping[str, Any], among: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_]:
    """Return a mask (n,) of the rows to fit on, by `options["fit"]`, the same for every model.

    Args:
        what: who asks, for errors.
        scored: (n,) mask of the scored rows.
        options: `fit`: `val`, `half` of the scored groups by `seed`, or `test`, all that is scored.
        among: rows to choose from; None = all.

    Raises:
        StageError: the scored rows cannot be halved.
    """
    among = np.ones(samples.n, dtype=bool) if among is None else among
    if options["fit"] == VALIDATION:
        return np.asarray(among & (np.array(samples.values("split"), dtype=object) == VALIDATION))
    rows = np.flatnonzero(among & scored)
    chosen = np.zeros(samples.n, dtype=bool)
    if options["fit"] == "test":
        chosen[rows] = True
        return chosen
    try:
        chosen[rows] = calibration_rows(samples.groups[rows], 0.5, options["seed"], "groups")
    except ValueError as error:
        raise StageError(f"{what}, dataset '{samples.name}': {error}") from error
    return chosen
