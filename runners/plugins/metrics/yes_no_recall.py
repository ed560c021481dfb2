"""Recall of yes-or-no answers. POPE: Li et al., 2023 (EMNLP); AMBER: Wang et al., 2023."""

from typing import Literal

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights
from qualm.runners.plugins.metrics._yes_no import positives, share

CITES = ["li2023evaluating", "wang2023amber"]
META = MetricMeta(higher_is_better=True, interval="proportion")
NEEDS = {"said": "marked_by_{judge}/said", "truth": "marked_by_{judge}/truth"}


def yes_no_recall(
    said: Floats,
    truth: Floats,
    weights: Weights,
    *,
    judge: str = "",
    positive: Literal["yes", "no"] = "yes",
    convention: Literal["exact", "amber"] = "exact",
) -> Floats:
    """Share of the questions with right answer `positive` ("yes") that get that answer.

    n(given and right) / n(right), over the questions for which the answer `positive` is right; in [0, 1], higher is better. Undefined where
    it is right for none. An answer that is neither yes nor no is missed.

    Args:
        judge: Label of the judge that reads yes or no in an answer (`pope`, `amber`, `mme`); by default the one whose ratings are scored.
        positive: The answer that is looked for: "yes" for POPE, "no" for AMBER.
        convention: `amber`: as AMBER's script prints it, over the count + 0.001, rounded to a tenth of a per cent; 0 where there is none.
    """
    of_said, of_truth = positives(said, truth, positive)
    sums = weights @ np.column_stack([of_said * of_truth, of_truth])
    return share(sums[:, 0], sums[:, 1], convention)
