"""Excess area under the risk-coverage curve, E-AURC. Geifman, Uziel, El-Yaniv, 2019 (ICLR)."""

from typing import Literal

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights
from qualm.runners.plugins.metrics.auarc import auarc
from qualm.runners.scoring.ranking import e_aurc_error

CITES = ["geifman2019bias"]
ALSO_KNOWN_AS = ["eaurc", "excess_aurc"]
META = MetricMeta(higher_is_better=False, interval="proportion")
NEEDS = {"doubt": {"by": {"uncertainty": "uncertainty", "confidence": "confidence"}}}


def e_aurc(doubt: Floats, correct: Floats, weights: Weights, *, by: Literal["uncertainty", "confidence"] = "uncertainty") -> Floats:
    """Area under the risk-coverage curve minus that of a perfect ranking of the same answers.

    `aurc` minus that of the order from right to wrong, over the same rows; in [0, 1), lower is better, 0 where every right answer is more
    certain than every wrong one, and so where all are right or none is. The paper and others take r + (1 - r) ln(1 - r) as the perfect
    area, r being the error; the exact one, used here, comes near it with many answers. Equally uncertain answers count in expectation over
    their orders. Undefined without rows.

    Args:
        by: What answers are ranked by: each estimator's uncertainty, or the confidence.

    Raises:
        ValueError: weights that are not counts.
    """
    perfect = auarc(-correct, correct, weights, form="rectangle")
    return np.maximum(perfect - auarc(doubt if by == "uncertainty" else -doubt, correct, weights, form="rectangle"), 0.0)


def classes(doubt: Floats, correct: Floats, *, by: str = "uncertainty") -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where the answer is right, else 0."""
    return (correct >= 0.5).astype(np.float64)


def minimum_standard_error(doubt: Floats, correct: Floats, value: float, *, by: str = "uncertainty") -> float:
    """Return the smallest credible standard error at this value: that of independent answers."""
    return e_aurc_error(correct, value)
