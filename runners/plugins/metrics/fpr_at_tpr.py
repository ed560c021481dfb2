"""False positive rate at a true positive rate (FPR95). Liang, Li, Srikant, 2018 (ICLR)."""

from typing import Annotated

import numpy as np
from annotated_types import Gt, Le

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.ranking import tie_sums

CITES = ["liang2018enhancing"]
ALSO_KNOWN_AS = ["fpr95", "fpr_95", "fpr@95", "fpr95tpr", "fprx"]
META = MetricMeta(
    higher_is_better=False,
    interval="none",
    why_no_interval="the threshold is chosen on these very answers, by their few most certain wrong ones",
)


def fpr_at_tpr(
    uncertainty: Floats,
    correct: Floats,
    weights: Weights,
    *,
    tpr: Annotated[float, Gt(0), Le(1)] = 0.95,
    right_from: Annotated[float, Gt(0), Le(1)] = 0.5,
) -> Floats:
    """Share of right answers withheld at the threshold that withholds `tpr` of the wrong ones.

    P(u >= t | right) at the highest threshold t with P(u >= t | wrong) >= tpr; equal u are one threshold. In [0, 1], lower is better;
    chance is `tpr`. It rests on the few most certain wrong answers, so it varies much with few of them. Undefined where all answers are
    right or all are wrong.

    Args:
        tpr: Share of the wrong answers that is withheld.
        right_from: The least correctness that counts as right (a half-right answer does, by default).
    """
    if not len(correct):
        return np.full(weights.shape[0], np.nan)
    right = (correct >= right_from).astype(np.float64)
    wrongs, rights = (np.cumsum(each, axis=1) for each in tie_sums(-uncertainty, [1 - right, right], weights))
    enough = (wrongs >= tpr * wrongs[:, -1:] - 1e-9).argmax(axis=1)
    both = np.minimum(wrongs[:, -1], rights[:, -1]) > 0
    return np.where(both, ratio(rights[np.arange(len(rights)), enough], rights[:, -1]), np.nan)


def why_undefined(uncertainty: Floats, correct: Floats, *, tpr: float = 0.95, right_from: float = 0.5) -> str:
    """Return the reason for an undefined value; called only where the value is NaN."""
    return f"all answers are {'right' if (correct >= right_from).all() else 'wrong'}"


def classes(uncertainty: Floats, correct: Floats, *, tpr: float = 0.95, right_from: float = 0.5) -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where the answer is right, else 0."""
    return (correct >= right_from).astype(np.float64)


def chance(*, tpr: float = 0.95) -> float:
    """Return the value of an uncertainty without information: `tpr`."""
    return tpr
