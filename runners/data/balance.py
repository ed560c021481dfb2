"""Balanced samples: `balance:` of a dataset draws equally many of each class.

VLM-UQBench scores 150 clean and 150 uncertain questions, so that calling all of them uncertain has an F1 of 2/3, and an AUROC of 1/2 is
chance. Without balance these baselines differ between subsets.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry.sample import UNCERTAIN
from qualm.runners.data.aligned import Samples
from qualm.runners.runtime.stage import StageError

TAKEN = "balanced "
"""Prefix of the counts of drawn samples."""
WORDS = {1.0: "uncertain", 0.0: "not uncertain"}


@dataclass(frozen=True)
class BalancedDraw:
    """Ids and counts of a draw of equally many samples of each class."""

    ids: frozenset[str]
    """Samples that remain: the drawn ones, and all that are not scored."""
    taken: Mapping[str, int]
    """Class -> number drawn, classes sorted."""
    left_out: int
    """Number of samples of a class that were not drawn."""
    undefined: int
    """Number of samples without a class."""

    @property
    def counts(self) -> dict[str, int]:
        """Return {message of the stage's record: number of samples drawn per class, or left out}."""
        left_out = {"left out (balance)": self.left_out, "left out (of no class)": self.undefined}
        return {f"{TAKEN}({name})": n for name, n in self.taken.items()} | {why: n for why, n in left_out.items() if n}


def balance_samples(samples: Samples, is_scored: NDArray[np.bool_], options: Mapping[str, Any]) -> BalancedDraw:
    """Draw `take` scored samples per class, keep all unscored; StageError by `shortfall`.

    Within a class, samples are ordered by a hash of seed and id, the first of every group before the second of any. So as many groups as
    possible are drawn, and a larger `take` only adds samples.

    Args:
        is_scored: which rows are scored; the others remain.
        options: `take` (number per class), `by` (a field), `shortfall` (if a class has fewer) and `seed`.

    Raises:
        StageError: a class has fewer than `take` and `shortfall` is `error`; or there is no class, or only one of uncertain or not.
    """
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(_classes(samples, options["by"])):
        if is_scored[row] and name is not None:
            rows_of[name].append(row)
    there = {name: len(rows) for name, rows in sorted(rows_of.items())}
    take = _numbers_to_draw(samples.name, there, options)
    ids, groups = samples.ids.to_pylist(), samples.groups
    chosen = [row for rows in rows_of.values() for row in _ordered(rows, ids, groups, options["seed"])[:take]]
    stay = frozenset(ids[row] for row in [*chosen, *np.flatnonzero(~is_scored).tolist()])
    taken = {name: min(take, n) for name, n in there.items()}
    return BalancedDraw(stay, taken, sum(there.values()) - len(chosen), int(is_scored.sum()) - sum(there.values()))


def _classes(samples: Samples, by: str) -> list[str | None]:
    if by == UNCERTAIN:
        return [WORDS.get(value) for value in samples.uncertain.tolist()]
    return samples.values(by)


def _numbers_to_draw(dataset: str, there: Mapping[str, int], how: Mapping[str, Any]) -> int:
    take, by, shortfall = int(how["take"]), how["by"], how["shortfall"]
    classes = {**(dict.fromkeys(WORDS.values(), 0) if by == UNCERTAIN else {}), **there}
    if not there:
        raise StageError(f"dataset {dataset}: balance: no scored sample has a value of '{by}'; name another field as `by`")
    short = {name: n for name, n in sorted(classes.items()) if n < take}
    if short and (shortfall == "error" or (shortfall == "fewest" and not min(classes.values()))):
        had = ", ".join(f"{n:,} {name}" for name, n in short.items())
        least = min(classes.values())
        way = (
            f"`take: {least}`, or `shortfall: fewest`, which takes that many of each" if least else "`shortfall: keep` takes what there is"
        )
        raise StageError(f"dataset {dataset}: balance: expected {take:,} of each class of '{by}', got {had}; {way}")
    return min(take, *classes.values()) if shortfall == "fewest" else take


def _ordered(rows: list[int], ids: list[str], groups: NDArray[np.int64], seed: int) -> list[int]:
    by_hash = sorted(rows, key=lambda row: hashlib.sha256(f"{seed}\0{ids[row]}".encode()).digest())
    turns: dict[int, Iterator[int]] = defaultdict(count)
    turn = {row: next(turns[int(groups[row])]) for row in by_hash}
    return sorted(by_hash, key=turn.__getitem__)
