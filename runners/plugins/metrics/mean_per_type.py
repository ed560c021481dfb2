"""Mean accuracy per type of question. TDIUC: Kafle, Kanan, 2017 (ICCV)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.measuring.bounded_means import mean_of_types_interval

CITES = ["kafle2017analysis"]
META = MetricMeta(higher_is_better=True, interval="own", increases_with="correct")
NEEDS = {"kinds": "code_of_{by}"}


def mean_per_type(
    correct: Floats, kinds: Floats, weights: Weights, *, mean: Literal["arithmetic", "harmonic"] = "arithmetic", by: str = "category"
) -> Floats:
    """Accuracy of each type of question, averaged over types (arithmetic or harmonic mean).

    With a_t the mean of `correct` over type t, of T types: arithmetic (A-MPT) = sum_t a_t / T; harmonic (H-MPT) =
    T / sum_t (1 / a_t), which a single weak type pulls down, and which is 0 where one has none right. In [0, 1], higher is
    better. Undefined without rows, and in resamples that lack a type.

    Args:
        mean: `arithmetic` or `harmonic`.
        by: The field or meta key whose values are the types.
    """
    member = (kinds[:, None] == np.unique(kinds)).astype(np.float64)
    sums = weights @ np.hstack([member * correct[:, None], member])
    types = member.shape[1]
    if not types:
        return np.full(weights.shape[0], np.nan)
    return over_types(ratio(sums[:, :types], sums[:, types:]), mean)


def types(correct: Floats, kinds: Floats, *, mean: str = "arithmetic", by: str = "category") -> Floats:
    """Return the (n,) type codes; an interval needs several groups of every type."""
    return kinds


def interval(
    correct: Floats, kinds: Floats, group: NDArray[np.int64], level: float, *, mean: str = "arithmetic", by: str = "category"
) -> tuple[float, float]:
    """Return the (low, high) interval of a mean over types, by Wilson's interval of each."""
    return mean_of_types_interval(correct, np.ones_like(correct), kinds, group, level, lambda accuracies: over_types(accuracies, mean))


def bounds() -> tuple[float, float]:
    """Return the lowest and highest possible value, 0 and 1."""
    return 0.0, 1.0


def over_types(accuracies: Floats, mean: str) -> Floats:
    """Return (B,) means, arithmetic or harmonic, of (B, T) accuracies; NaN where one is NaN."""
    if mean == "arithmetic":
        return np.asarray(accuracies.mean(axis=1))
    with np.errstate(divide="ignore"):
        return np.asarray(accuracies.shape[1] / (1 / accuracies).sum(axis=1))
