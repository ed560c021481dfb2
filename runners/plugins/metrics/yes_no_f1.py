"""F1 of yes-or-no answers. POPE: Li et al., 2023 (EMNLP); AMBER: Wang et al., 2023."""

from typing import Literal

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.plugins.metrics._yes_no import positives, rounded, share

CITES = ["li2023evaluating", "wang2023amber"]
META = MetricMeta(higher_is_better=True, interval="proportion")
NEEDS = {"said": "marked_by_{judge}/said", "truth": "marked_by_{judge}/truth"}
SMALL = {"amber": 0.0001, "amber_existence": 0.001}
"""Constant that AMBER's script adds to precision + recall: larger for existence questions alone."""


def yes_no_f1(
    said: Floats,
    truth: Floats,
    weights: Weights,
    *,
    judge: str = "",
    positive: Literal["yes", "no"] = "yes",
    convention: Literal["exact", "amber", "amber_existence"] = "exact",
) -> Floats:
    """Harmonic mean of precision and recall for the answer `positive` ("yes" by default).

    F1 = 2 n(given and right) / (n(given) + n(right)): n(given) replies give the answer `positive`, for n(right) questions it is right. In
    [0, 1], higher is better. Undefined where no reply gives it and it is right for no question.

    Args:
        judge: Label of the judge that reads yes or no in an answer (`pope`, `amber`, `mme`); by default the one whose ratings are scored.
        positive: The answer that is looked for: "yes" for POPE, "no" for AMBER.
        convention: `amber`: 2PR / (P + R + 0.0001) of P and R that are rounded to a tenth of a per cent before, and rounded again, as
            AMBER's script prints it; `amber_existence`: with 0.001, as it prints it of the existence questions.
    """
    said_so, is_so = positives(said, truth, positive)
    hits, of_said, of_truth = (weights @ np.column_stack([said_so * is_so, said_so, is_so])).T
    if convention == "exact":
        return ratio(2 * hits, of_said + of_truth)
    precision, recall = share(hits, of_said, convention), share(hits, of_truth, convention)
    return rounded(2 * precision * recall / (precision + recall + SMALL[convention]))
