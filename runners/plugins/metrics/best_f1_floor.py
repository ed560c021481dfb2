"""Best F1 that needs no estimator. VLM-UQBench: Wang, Chen, Ahmad, Batmanghelich, Li."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, explain_one_class, ratio

META = MetricMeta(higher_is_better=None, interval="proportion")


def best_f1_floor(uncertainty: Floats, uncertain: Floats, weights: Weights) -> Floats:
    """F1 of calling every question uncertain: the lower bound of `best_f1` for any estimator.

    2 n1 / (2 n1 + n0) of n1 uncertain and n0 other questions, over those that the estimator has a value for: 2/3 for 150 of
    each, 0.6 for 60 and 80. Neither direction is better. Undefined where all questions are uncertain or none is.
    """
    sums = weights @ np.column_stack([uncertain, 1 - uncertain])
    n1, n0 = sums[:, 0], sums[:, 1]
    return np.where((n1 > 0) & (n0 > 0), ratio(2 * n1, 2 * n1 + n0), np.nan)


def why_undefined(uncertainty: Floats, uncertain: Floats) -> str:
    """Return the reason for an undefined value; called only where the value is NaN."""
    return explain_one_class(uncertain)


def classes(uncertainty: Floats, uncertain: Floats) -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where the question is uncertain."""
    return uncertain
