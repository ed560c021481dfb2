"""Coverage at a risk. Geifman, El-Yaniv, 2017 (NeurIPS); as in reliable VQA, Whitehead et al., 2022 (ECCV)."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.ranking import tie_sums

CITES = ["geifman2017selective", "whitehead2022reliable"]
META = MetricMeta(
    higher_is_better=True,
    interval="none",
    why_no_interval="the threshold is chosen on the answers it is measured on, so the value is too high by chance, and resamples "
    "repeat the choice",
)
SLACK = 1e-9


def coverage_at_risk(confidence: Floats, correct: Floats, weights: Weights, *, risk: Annotated[float, Ge(0), Le(1)] = 0.05) -> Floats:
    """Largest share of answers, surest first, with an error rate of at most `risk`; else 0.

    max k/n over cuts with risk_k = 1 - mean correctness of the k surest <= risk, in [0, 1], higher is better; 0 if no cut meets the risk.
    Equally sure answers are answered together or not at all. The curve need not be monotone: a later cut that meets the risk again counts.
    Undefined without rows. The cut is chosen on the rows it is measured on, as is usual, so this is what a perfect choice of
    threshold would give, not a promise.

    Args:
        risk: Allowed error among the answered; reliable VQA reports 0.01, 0.05, 0.1 and 0.2 (a list is a sweep).
    """
    if not len(correct):
        return np.full(weights.shape[0], np.nan)
    count, right = (np.cumsum(s, axis=1) for s in tie_sums(-confidence, [np.ones_like(correct), correct], weights))
    meets = count - right <= risk * count + SLACK
    return ratio(np.where(meets, count, 0.0).max(axis=1), count[:, -1])
