"""LAVE with refusals. CertainlyUncertain: Chandu et al., 2025 (ICLR); LAVE: Mañas, Krojer, Agrawal, 2024 (AAAI)."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

CITES = ["chandu2025certainlyuncertain", "manas2024improving"]
META = MetricMeta(higher_is_better=True, interval="proportion", increases_with="correct", row_by_row=True)


def lave_idk_accuracy(correct: Floats, pred_is_idk: Floats, gt_is_idk: Floats, weights: Weights) -> Floats:
    """Mean rating of open answers; unanswerable questions call for a refusal, others for none.

    mean(s), s = 1 if answer and truth both decline, 0 if exactly one does, else the judge's rating (0, 0.5 or 1). In [0, 1],
    higher is better; over all questions, answerable or not. Undefined without rows. An earlier preprint gives 1 wherever
    either side declines; that is a typing error, which would reward a model that always declines.
    """
    declined = np.maximum(pred_is_idk, gt_is_idk) > 0
    score = np.where(declined, pred_is_idk == gt_is_idk, correct)
    return mean(score, np.ones_like(score), weights)
