"""Area under the risk-coverage curve. Geifman, Uziel, El-Yaniv, 2019 (ICLR)."""

from typing import Literal

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights
from qualm.runners.plugins.metrics.auarc import auarc
from qualm.runners.scoring.ranking import aurc_error

CITES = ["geifman2019bias"]
ALSO_KNOWN_AS = ["area_under_risk_coverage"]
META = MetricMeta(higher_is_better=False, interval="proportion")
NEEDS = {"doubt": {"by": {"uncertainty": "uncertainty", "confidence": "confidence"}}}


def aurc(doubt: Floats, correct: Floats, weights: Weights, *, by: Literal["uncertainty", "confidence"] = "uncertainty") -> Floats:
    """Error rate among the most certain answers, averaged over the share of answers given.

    (1/n) sum of risk_k, risk_k = 1 - mean correctness of the k least uncertain of n answers; in [0, 1], lower is better. A useless
    uncertainty gives the plain error, so the value depends on accuracy as much as on uncertainty: `e_aurc` takes accuracy out, and `augrc`
    does not weigh the surest answers most. Equally uncertain answers count in expectation over their orders. Undefined without rows. 1 -
    `auarc` in the form `rectangle`; `risk_coverage` is the same by confidence, as a trapezoid.

    Args:
        by: What answers are ranked by: each estimator's uncertainty, or the confidence.

    Raises:
        ValueError: weights that are not counts.
    """
    return 1 - auarc(doubt if by == "uncertainty" else -doubt, correct, weights, form="rectangle")


def classes(doubt: Floats, correct: Floats, *, by: str = "uncertainty") -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where `correct` is at least 0.5, else 0."""
    return (correct >= 0.5).astype(np.float64)


def minimum_standard_error(doubt: Floats, correct: Floats, value: float, *, by: str = "uncertainty") -> float:
    """Return the smallest credible standard error at this value: that of independent answers."""
    return aurc_error(correct, value)


def chance(correct: Floats) -> float:
    """Return the value of an uncertainty without information: the error rate."""
    return float(1 - correct.mean())
