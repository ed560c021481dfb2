"""Accuracy at a coverage. El-Yaniv, Wiener, 2010 (JMLR); Geifman, El-Yaniv, 2017 (NeurIPS)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt, Le

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights
from qualm.runners.scoring.ranking import RetainedAccuracy

CITES = ["elyaniv2010foundations", "geifman2017selective"]
ALSO_KNOWN_AS = ["accuracy_at_coverage", "selective_risk", "risk_at_coverage"]
META = MetricMeta(higher_is_better=True, interval="proportion")
NEEDS = {"doubt": {"by": {"uncertainty": "uncertainty", "confidence": "confidence"}}}


def selective_accuracy(
    doubt: Floats,
    correct: Floats,
    weights: Weights,
    *,
    coverage: Annotated[float, Gt(0), Le(1)] = 0.8,
    by: Literal["uncertainty", "confidence"] = "uncertainty",
) -> Floats:
    """Accuracy if a model answers only a given share of the questions, the most certain ones.

    Mean correctness of the k least uncertain of n answers, k = n * coverage rounded up; in [0, 1], higher is better; at a coverage of 1 it
    is accuracy. Where the cut falls among equally uncertain answers these count in expectation over their orders. The cut is of these
    very rows but not chosen by their correctness, so it is not optimistic. Undefined without rows.

    Args:
        coverage: Share of the questions that is answered (a list is a sweep).
        by: What answers are ranked by: each estimator's uncertainty, or the confidence.

    Raises:
        ValueError: weights that are not counts.
    """
    if not len(correct):
        return np.full(weights.shape[0], np.nan)
    least_doubted = RetainedAccuracy.compute(doubt if by == "uncertainty" else -doubt, correct, weights, "selective_accuracy")
    return least_doubted.mean_of(np.ceil(coverage * least_doubted.total - 1e-9).astype(np.int64))


def enters(doubt: Floats, correct: Floats, *, coverage: float = 0.8, by: str = "uncertainty") -> Floats:
    """Return (n,) 1 for retained answers, including ties at the cut; 0 for others."""
    score = doubt if by == "uncertainty" else -doubt
    cut = np.sort(score)[int(np.ceil(coverage * len(score) - 1e-9)) - 1]
    return np.asarray(score <= cut, dtype=np.float64)


def chance(correct: Floats) -> float:
    """Return the value of an uncertainty without information: the accuracy."""
    return float(correct.mean())
