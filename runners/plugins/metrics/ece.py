"""Expected calibration error. Naeini, Cooper, Hauskrecht, 2015; Guo, Pleiss, Sun, Weinberger, 2017."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.binning import members

CITES = ["naeini2015obtaining", "guo2017calibration"]
HIGHER_IS_BETTER = False


def ece(
    confidence: Floats,
    correct: Floats,
    is_calibration: Floats,
    weights: Weights,
    *,
    bins: Annotated[int, Ge(1)] = 15,
    convention: Literal["torchmetrics", "guo", "lm_polygraph", "netcal"] = "torchmetrics",
    rows: Literal["test", "all"] = "test",
) -> Floats:
    """How far confidence and correctness lie apart, averaged over equal-width bins of confidence.

    ECE = sum over bins of |B|/n * |mean correct(B) - mean confidence(B)|, in [0, 1], lower is better. Empty bins add 0.
    Undefined without rows. A biased estimate: it grows with the number of bins and shrinks with n.

    Args:
        bins: Number of bins.
        convention: To which bin an edge belongs; see `runners/scoring/binning.py`. VLM-Uncertainty-Bench used torchmetrics.
        rows: `test`: rows no conformal setting calibrates on. `all`: every row, as VLM-Uncertainty-Bench published.
    """
    chosen = 1 - is_calibration if rows == "test" else np.ones_like(correct)
    inside = members(confidence, bins, convention) * (chosen * (correct - confidence))[:, None]
    sums = weights @ np.column_stack([inside, chosen])
    return ratio(np.abs(sums[:, :-1]).sum(axis=1), sums[:, -1])
