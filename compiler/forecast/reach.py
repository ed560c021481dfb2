"""Check whether any test of a spec can be significant: the smallest p-value that its permutations allow."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qualm.compiler.resolve.resolved import Resolved
from qualm.runners.scoring.power import FEWEST, RANKS, fewest

LEVEL = 0.05
_OF_ESTIMATORS = {"uncertainty", "clean_uncertainty", "uncertainty_change"}
_OF_SETS = {"is_calibration", "covered", "set_size"}


@dataclass(frozen=True)
class SmallestP:
    """Smallest corrected p-value in the largest multiple-testing family of a spec."""

    tests: int
    """Minimum number of tests in the family: every slice field is counted with one value."""
    p: float
    """Smallest corrected p-value of the metrics with the fewest permutations."""
    permutations: int
    enough: int
    """Number of permutations that makes p < .05 possible."""
    correction: str
    family: str

    @property
    def advice(self) -> str:
        """Return a warning with a remedy; empty if something can be significant."""
        if self.p < LEVEL:
            return ""
        way = " or `correction: max_t`, for which the number of tests does not matter" if self.correction == "holm" else ""
        return (
            f"compare: nothing can be significant: {self.tests:,} tests or more in a family ({self.family}, {self.correction}) with "
            f"{self.permutations:,} permutations have a corrected p of {self.p:.3f} at the smallest; "
            f"take `permutations: {self.enough}` or more{way}"
        )


def smallest_p(resolved: Resolved) -> SmallestP | None:
    """Return the smallest p-value that a spec's tests can reach; None if it has no tests."""
    compare = resolved.spec.compare
    tests = _tests(resolved)
    if not tests:
        return None
    if compare.permutations == 0:
        return SmallestP(tests, 1.0, 0, 10_000, compare.correction, compare.family)
    count = tests if compare.correction == "holm" else 1
    # The smallest p of a permutation test is 1 / (1 + permutations), the data themselves counting as one; Holm multiplies it.
    p = min(1.0, count / (1 + fewest(compare.permutations)))
    least = math.ceil(count / LEVEL)
    # Beyond FEWEST permutations tests by ranks get fewer than the spec says (see `fewest`).
    enough = least if least <= FEWEST else least * RANKS
    return SmallestP(tests, p, compare.permutations, enough, compare.correction, compare.family)


def _tests(resolved: Resolved) -> int:
    """Count the tests of the largest multiple-testing family."""
    compare, models = resolved.spec.compare, resolved.scored_models
    pairs = (len(models) - 1) * (compare.baseline in models) + sum(list(p) != [compare.baseline, p[1]] for p in compare.pairs)
    of_perturbations = [m for m in resolved.metrics if "TEST" in m.plugin.declares] if resolved.perturbations else []
    cells = [len(resolved.models) * len(resolved.perturbations_of(d)) for d in resolved.evaluated]
    of_models = [
        pairs * _labels(resolved, m.plugin.reads) for m in resolved.metrics if not set(m.plugin.reads) & _OF_ESTIMATORS - {"uncertainty"}
    ]
    of_effects = [_labels(resolved, m.plugin.reads) for m in of_perturbations]
    if compare.family == "metric":
        return max([pairs * bool(of_models), *(max(cells, default=0) * n for n in of_effects)], default=0)
    of_datasets = [sum(of_models) + n * sum(of_effects) for n in cells]
    return sum(of_datasets) * (1 + len(set(resolved.spec.slices))) if compare.family == "study" else max(of_datasets, default=0)


def _labels(resolved: Resolved, reads: tuple[str, ...]) -> int:
    estimators = max(1, len(resolved.estimators)) if set(reads) & _OF_ESTIMATORS else 1
    return estimators * (max(1, len(resolved.conformal)) if set(reads) & _OF_SETS else 1)
