"""Average precision of finding wrong answers: AUPR-Error and AUPR-Success of Hendrycks, Gimpel, 2017 (ICLR)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt, Le

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.ranking import tie_sums

CITES = ["hendrycks2017baseline"]
ALSO_KNOWN_AS = ["aupr", "auprc", "pr_auc", "aupr_error", "aupr_err", "aupr_in", "aupr_success", "ap"]
META = MetricMeta(higher_is_better=True, interval="proportion")


def average_precision(
    uncertainty: Floats,
    correct: Floats,
    weights: Weights,
    *,
    positive: Literal["wrong", "right"] = "wrong",
    right_from: Annotated[float, Gt(0), Le(1)] = 0.5,
) -> Floats:
    """Average precision of calling an answer wrong where the model is uncertain.

    AP = sum over thresholds t, from the most uncertain down, of (R_t - R_before) P_t: P_t is the share of wrong answers among those with
    u >= t, R_t the share of all wrong answers that these are; equal u are one threshold. In [0, 1], higher is better. Chance is the share
    of wrong answers, so values of models that are wrong unequally often do not compare; those of `auroc` do. Undefined where no answer is
    wrong.

    Args:
        positive: `wrong` (AUPR-Error), or `right`: calling an answer right where the model is certain (AUPR-Success).
        right_from: The least correctness that counts as right (a half-right answer does, by default).
    """
    if not len(correct):
        return np.full(weights.shape[0], np.nan)
    right = (correct >= right_from).astype(np.float64)
    order, sought = (-uncertainty, 1 - right) if positive == "wrong" else (uncertainty, right)
    hits, misses = (np.cumsum(each, axis=1) for each in tie_sums(order, [sought, 1 - sought], weights))
    precision = np.nan_to_num(ratio(hits, hits + misses))
    return ratio((np.diff(hits, axis=1, prepend=0.0) * precision).sum(axis=1), hits[:, -1])


def why_undefined(uncertainty: Floats, correct: Floats, *, positive: str = "wrong", right_from: float = 0.5) -> str:
    """Return the reason for an undefined value; called only where the value is NaN."""
    return f"no answer is {positive}"


def classes(uncertainty: Floats, correct: Floats, *, positive: str = "wrong", right_from: float = 0.5) -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where the answer is right, else 0."""
    return (correct >= right_from).astype(np.float64)


def chance(correct: Floats, *, positive: str = "wrong", right_from: float = 0.5) -> float:
    """Return the value of an uncertainty without information: the share of `positive`."""
    right = float((correct >= right_from).mean())
    return right if positive == "right" else 1 - right
