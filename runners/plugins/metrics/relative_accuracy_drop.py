"""Relative drop of accuracy under uncertainty. MVI-Sensitivity: Chen et al., 2025, and their evaluation code."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, explain_one_class, ratio

CITES = ["chen2025mvibench"]
META = MetricMeta(higher_is_better=False, interval="t")


def relative_accuracy_drop(correct: Floats, uncertain: Floats, weights: Weights) -> Floats:
    """Share of the accuracy on clear questions lost on uncertain ones; negative for a gain.

    (a_clear - a_uncertain) / a_clear, a the mean of `correct`, at most 1, lower is better; negative if uncertain questions are answered
    better. The dataset's `uncertain:` says which they are. With `type != 'normal'` of MVI-Bench this is MVI-Sensitivity, the relative drop
    from normal to misleading images. Undefined without questions of both kinds, or if no clear question is answered right, where the
    authors' code gives 0.
    """
    sums = weights @ np.column_stack([correct * (1 - uncertain), 1 - uncertain, correct * uncertain, uncertain])
    clear, unclear = ratio(sums[:, 0], sums[:, 1]), ratio(sums[:, 2], sums[:, 3])
    return 1 - ratio(unclear, clear)


def why_undefined(correct: Floats, uncertain: Floats) -> str:
    """Return the reason for an undefined value; called only where the value is NaN."""
    return "no clear question is answered right" if 0 < uncertain.sum() < len(uncertain) else explain_one_class(uncertain)


def classes(correct: Floats, uncertain: Floats) -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where the question is uncertain."""
    return uncertain


def bounds() -> tuple[float, float]:
    """Return the lowest and highest possible value: minus infinity, and 1."""
    return -np.inf, 1.0
