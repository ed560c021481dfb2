"""As many samples of each class: the draw that `balance:` of a data set asks for.

VLM-UQBench scores 150 clean and 150 uncertain questions, so that calling all of them uncertain has an F1 of 2/3 and an AUROC of a half is
chance; over whatever a split holds, floors differ from subset to subset and tables cannot be compared.
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
"""How counts of what is taken begin."""
WORDS = {1.0: "uncertain", 0.0: "not uncertain"}


@dataclass(frozen=True)
class BalancedDraw:
    """What is left of a data set."""

    ids: frozenset[str]
    """Samples that stay: those that were drawn, and all that are not scored."""
    taken: Mapping[str, int]
    """Class -> how many of it, classes sorted."""
    left_out: int
    """Of a class, beyond what is taken."""
    undefined: int
    """Of no class."""

    @property
    def counts(self) -> dict[str, int]:
        """For the stage's record."""
        left_out = {"left out (balance)": self.left_out, "left out (of no class)": self.undefined}
        return {f"{TAKEN}({name})": n for name, n in self.taken.items()} | {why: n for why, n in left_out.items() if n}


def balanced(samples: Samples, scored: NDArray[np.bool_], how: Mapping[str, Any]) -> BalancedDraw:
    """The samples that stay, of those that are scored so many of each class.

    Within a class samples stand in the order of a hash of seed and id, the first of every group (picture or question) before the second
    of any: as many groups as there are, and a larger `take` only adds.

    Args:
        scored: which of its rows are scored; the others stay as they are.
        how: `take` (so many), `by` (a field), `shortfall` (what to do where a class has fewer) and `seed`.

    Raises:
        StageError: a class has fewer than `take`, and `shortfall` is `error`; or there is no class, or only one of uncertain or not.
    """
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(_classes(samples, how["by"])):
        if scored[row] and name is not None:
            rows_of[name].append(row)
    there = {name: len(rows) for name, rows in sorted(rows_of.items())}
    take = _take(samples.name, there, how)
    ids, groups = samples.ids.to_pylist(), samples.groups
    chosen = [row for rows in rows_of.values() for row in _ordered(rows, ids, groups, how["seed"])[:take]]
    stay = frozenset(ids[row] for row in [*chosen, *np.flatnonzero(~scored).tolist()])
    taken = {name: min(take, n) for name, n in there.items()}
    return BalancedDraw(stay, taken, sum(there.values()) - len(chosen), int(scored.sum()) - sum(there.values()))


def _classes(samples: Samples, by: str) -> list[str | None]:
    if by == UNCERTAIN:
        return [WORDS.get(value) for value in samples.uncertain.tolist()]
    return samples.values(by)


def _take(dataset: str, there: Mapping[str, int], how: Mapping[str, Any]) -> int:
    """How many of each class, at most."""
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
