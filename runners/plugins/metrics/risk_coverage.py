"""Area under the risk-coverage curve. El-Yaniv, Wiener, 2010 (JMLR); as in reliable VQA, Whitehead et al., 2022 (ECCV)."""

from typing import Literal

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.plugins.metrics.auarc import auarc
from qualm.runners.scoring.ranking import aurc_error

CITES = ["elyaniv2010foundations", "whitehead2022reliable"]
META = MetricMeta(higher_is_better=False, interval="proportion")


def risk_coverage(confidence: Floats, correct: Floats, weights: Weights, *, form: Literal["trapezoid", "mean"] = "trapezoid") -> Floats:
    """Error rate among the most certain answers, integrated over the share answered.

    With risk_k = 1 - mean correctness of the k surest of n answers: `trapezoid` is the area under (k/n, risk_k), which
    begins at coverage 1/n; `mean` is the mean of risk_1..risk_n (AURC elsewhere). In [0, 1], lower is better. Equally sure
    answers count in expectation over their orders, so no order of rows matters. Undefined without rows, and for the
    trapezoid of a single one.

    Args:
        form: Trapezoid, as reliable VQA's code has it, or mean.

    Raises:
        ValueError: weights that are not counts.
    """
    if form == "mean":
        return 1 - auarc(-confidence, correct, weights, form="rectangle")
    # auarc's points span [0, 1] in n - 1 steps, these [1/n, 1]
    n = weights @ np.ones_like(correct)
    return (1 - auarc(-confidence, correct, weights)) * ratio(n - 1, n)


def classes(confidence: Floats, correct: Floats, *, form: str = "trapezoid") -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where correctness is at least 0.5."""
    return (correct >= 0.5).astype(np.float64)


def minimum_standard_error(confidence: Floats, correct: Floats, value: float, *, form: str = "trapezoid") -> float:
    """Return the smallest credible standard error at this value: that of independent answers."""
    return aurc_error(correct, value)
