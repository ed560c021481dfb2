"""Accuracy of yes-or-no answers. POPE: Li et al., 2023 (EMNLP); AMBER: Wang et al., 2023."""

from typing import Literal

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights
from qualm.runners.plugins.metrics._yes_no import share

CITES = ["li2023evaluating", "wang2023amber"]
META = MetricMeta(higher_is_better=True, interval="proportion")
NEEDS = {"said": "marked_by_{judge}/said", "truth": "marked_by_{judge}/truth"}


def yes_no_accuracy(
    said: Floats, truth: Floats, weights: Weights, *, judge: str = "", convention: Literal["exact", "amber"] = "exact"
) -> Floats:
    """Share of yes-or-no questions that are answered correctly.

    mean 1[said = truth], in [0, 1], higher is better. An answer that is neither yes nor no is wrong. Undefined without rows.

    Args:
        judge: Label of the judge that reads yes or no in an answer (`pope`, `amber`, `mme`); by default the one whose ratings are scored.
        convention: `amber`: as AMBER's script prints it, over the count + 0.001 and rounded to a tenth of a per cent.
    """
    sums = weights @ np.column_stack([said == truth, np.ones_like(said)]).astype(np.float64)
    return share(sums[:, 0], sums[:, 1], convention)
