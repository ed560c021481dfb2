"""Share of refusals."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

META = MetricMeta(higher_is_better=None, interval="proportion", row_by_row=True)


def idk_rate(pred_is_idk: Floats, weights: Weights) -> Floats:
    """Share of answers that abstain.

    mean(pred_is_idk) over answers in words, to open questions and to multiple-choice ones without numbers for options, in [0, 1].
    Neither direction is better: compare it with the share of questions that cannot be answered. Undefined without rows.
    """
    return mean(pred_is_idk, np.ones_like(pred_is_idk), weights)
