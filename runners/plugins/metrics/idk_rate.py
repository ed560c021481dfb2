"""Share of refusals."""

import numpy as np

from qualm.runners.contracts.metrics import Floats, Weights, mean

HIGHER_IS_BETTER = None
ROW_BY_ROW = True
INTERVAL = "proportion"


def idk_rate(pred_is_idk: Floats, weights: Weights) -> Floats:
    """How often the model declines to answer.

    mean(pred_is_idk) over answers in words, to open questions and to multiple-choice ones without numbers for options, in [0, 1].
    Neither direction is better: compare it with the share of questions that cannot be answered. Undefined without rows.
    """
    return mean(pred_is_idk, np.ones_like(pred_is_idk), weights)
