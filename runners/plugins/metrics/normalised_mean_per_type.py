"""Mean accuracy per type of question, every answer of a type counting alike. TDIUC: Kafle, Kanan, 2017 (ICCV)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.plugins.metrics.mean_per_type import over_types
from qualm.runners.scoring.measuring.bounded_means import mean_of_types_interval

CITES = ["kafle2017analysis"]
META = MetricMeta(higher_is_better=True, interval="own", increases_with="correct")
NEEDS = {"kinds": "code_of_{by}", "answers": "code_of_references"}


def normalised_mean_per_type(
    correct: Floats,
    kinds: Floats,
    answers: Floats,
    weights: Weights,
    *,
    mean: Literal["arithmetic", "harmonic"] = "arithmetic",
    by: str = "category",
) -> Floats:
    """Accuracy on each reference answer's questions, averaged within types, then over types.

    With a_tr the mean of `correct` over the rows of type t whose right answer is r, and n_t = mean over r of a_tr:
    arithmetic (A-NMPT) = sum_t n_t / T, harmonic (H-NMPT) = T / sum_t (1 / n_t), 0 where one n_t is. A model that always gives
    the commonest answer of a type gains little. In [0, 1], higher is better. In a resample the answers that were not drawn
    are left out of their type's mean. Undefined without rows, and in resamples that lack a type.

    Args:
        mean: `arithmetic` or `harmonic`.
        by: The field or meta key whose values are the types.
    """
    drawn = np.asarray(weights)
    if not len(correct):
        return np.full(len(drawn), np.nan)
    order = np.lexsort((answers, kinds))
    new_type = _is_run_start(kinds[order])
    starts = np.flatnonzero(new_type | _is_run_start(answers[order]))
    sorted_weights = drawn[:, order]
    right = np.add.reduceat(sorted_weights * correct[order], starts, axis=1)
    accuracy = ratio(right, np.add.reduceat(sorted_weights, starts, axis=1))
    there = ~np.isnan(accuracy)
    types = np.flatnonzero(new_type[starts])
    of_types = np.add.reduceat(np.where(there, accuracy, 0.0), types, axis=1)
    return over_types(ratio(of_types, np.add.reduceat(there.astype(np.float64), types, axis=1)), mean)


def types(correct: Floats, kinds: Floats, answers: Floats, *, mean: str = "arithmetic", by: str = "category") -> Floats:
    """Return the (n,) type codes; an interval needs several groups of every type."""
    return kinds


def interval(
    correct: Floats,
    kinds: Floats,
    answers: Floats,
    group: NDArray[np.int64],
    level: float,
    *,
    mean: str = "arithmetic",
    by: str = "category",
) -> tuple[float, float]:
    """Return the (low, high) interval of `normalised_mean_per_type`, arithmetic or harmonic."""
    _, place, count = np.unique(np.stack([kinds, answers]), axis=1, return_inverse=True, return_counts=True)
    return mean_of_types_interval(correct, 1 / count[place.ravel()], kinds, group, level, lambda accuracies: over_types(accuracies, mean))


def bounds() -> tuple[float, float]:
    """Return the lowest and highest possible value, 0 and 1."""
    return 0.0, 1.0


def _is_run_start(values: Floats) -> NDArray[np.bool_]:
    """Return a mask of the first value of each run of equal values."""
    return np.concatenate([[True], values[1:] != values[:-1]])
