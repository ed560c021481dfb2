"""Models asked outright whether a question is uncertain. VLM-UQBench: Wang, Chen, Ahmad, Batmanghelich, Li; Chen et al., 2025 (ICCV)."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, explain_one_class, ratio

CITES = ["wang_vlmuqbench"]
META = MetricMeta(higher_is_better=True, interval="proportion")


def f1_uncertain(says_uncertain: Floats, uncertain: Floats, weights: Weights) -> Floats:
    """F1 of a model's replies when it is asked whether a question is uncertain.

    2 TP / (said uncertain + truly uncertain), positive = questions that are meant to be uncertain; in [0, 1], higher is better.
    To be compared with an estimator's `best_f1` on the questions themselves; a model that says "yes" to all reaches `best_f1_floor`. No
    threshold is chosen here. Replies that come to neither yes nor no are unscored. Undefined where all questions are uncertain or none is.
    """
    sums = weights @ np.column_stack([2 * says_uncertain * uncertain, says_uncertain + uncertain, uncertain, 1 - uncertain])
    defined = (sums[:, 2] > 0) & (sums[:, 3] > 0)
    return np.where(defined, ratio(sums[:, 0], sums[:, 1]), np.nan)


def why_undefined(says_uncertain: Floats, uncertain: Floats) -> str:
    """Return the reason for an undefined value; called only where the value is NaN."""
    return explain_one_class(uncertain)


def classes(says_uncertain: Floats, uncertain: Floats) -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where the question is uncertain."""
    return uncertain
