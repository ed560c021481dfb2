"""Area under the generalised risk-coverage curve. Traub, Bungert, Lueth, Baumgartner, Maier-Hein, Maier-Hein, Jaeger, 2024 (NeurIPS)."""

from typing import Literal

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.ranking import augrc_error, tie_sums

CITES = ["traub2024overcoming"]
ALSO_KNOWN_AS = ["area_under_generalized_risk_coverage", "area_under_generalised_risk_coverage"]
META = MetricMeta(higher_is_better=False, interval="proportion")
NEEDS = {"doubt": {"by": {"uncertainty": "uncertainty", "confidence": "confidence"}}}


def augrc(doubt: Floats, correct: Floats, weights: Weights, *, by: Literal["uncertainty", "confidence"] = "uncertainty") -> Floats:
    """Probability that an answer is given and wrong, averaged over the share of answers given.

    Integral over coverage of P(wrong and answered), all questions counting in the denominator, where `aurc` divides by those answered and
    so weighs errors among the surest most. The area under the points (k/n, wrong among the k least uncertain / n) and (0, 0), joined by
    straight lines; equally uncertain answers are one step, so no order matters. In [0, 1/2], lower is better; where answers are right or
    wrong, never half right, it is (1 - AUROC) * accuracy * error + error^2 / 2. Undefined without rows.

    The authors' fd-shifts gives this times 1000. torch-uncertainty 0.13 leaves the first 1/n of coverage out, divides by 1 - 1/n, and takes
    equally uncertain answers one by one as they are sorted: without ties (AUGRC - e / (2 n^2)) / (1 - 1/n), e the surest answer's error.

    Args:
        by: What answers are ranked by: each estimator's uncertainty, or the confidence.
    """
    if not len(correct):
        return np.full(weights.shape[0], np.nan)
    here, wrong = tie_sums(doubt if by == "uncertainty" else -doubt, [np.ones_like(correct), 1 - correct], weights)
    before = np.cumsum(wrong, axis=1) - wrong
    return ratio((here * (before + wrong / 2)).sum(axis=1), here.sum(axis=1) ** 2)


def classes(doubt: Floats, correct: Floats, *, by: str = "uncertainty") -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where correctness is at least 0.5."""
    return (correct >= 0.5).astype(np.float64)


def minimum_standard_error(doubt: Floats, correct: Floats, value: float, *, by: str = "uncertainty") -> float:
    """Return the smallest credible standard error at this value: that of independent answers."""
    return augrc_error(correct, value)


def chance(correct: Floats) -> float:
    """Return the value of an uncertainty without information: half the error rate."""
    return float((1 - correct.mean()) / 2)
