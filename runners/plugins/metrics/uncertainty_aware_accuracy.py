"""UAcc (Ye et al., Benchmarking LLMs via uncertainty quantification, 2024; used by VLM-Uncertainty-Bench)."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio

CITES = ["ye2024benchmarking", "kostumov2024uncertainty"]
META = MetricMeta(higher_is_better=True, interval="t", increases_with="correct", row_by_row=True)


def uncertainty_aware_accuracy(correct: Floats, set_size: Floats, n_options: Floats, is_calibration: Floats, weights: Weights) -> Floats:
    """Accuracy times the root of the number of options, divided by the mean set size.

    UAcc = accuracy * sqrt(K) / mean |C(x)| over the test rows, K the number of options (the mean of sqrt(K) where it
    varies). Range [0, sqrt(K)], higher is better. Undefined without test rows or if every set is empty.
    """
    test = 1 - is_calibration
    sums = weights @ np.column_stack([correct * test, np.sqrt(n_options) * test, set_size * test, test])
    return ratio(sums[:, 0] * sums[:, 1], sums[:, 2] * sums[:, 3])


def bounds(never_empty: Floats, n_options: Floats) -> tuple[float, float]:
    """Return 0, and the root of the largest option count (infinity if sets may be empty)."""
    return 0.0, float(np.sqrt(n_options.max())) if never_empty.all() else np.inf
