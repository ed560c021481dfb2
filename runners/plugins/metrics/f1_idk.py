"""F1 of refusals. CertainlyUncertain: Chandu et al., 2025 (ICLR)."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio

CITES = ["chandu2025certainlyuncertain"]
META = MetricMeta(higher_is_better=True, interval="proportion")


def f1_idk(pred_is_idk: Floats, gt_is_idk: Floats, weights: Weights) -> Floats:
    """F1 of refusals as a detector of unanswerable questions.

    F1 = 2 TP / (declined + unanswerable), where TP counts refusals of unanswerable questions; the positive class is "I
    don't know" over ALL questions, since on the unanswerable ones alone precision would always be 1. In [0, 1], higher is
    better. Undefined where nothing is unanswerable and nothing was declined.
    """
    sums = weights @ np.column_stack([2 * pred_is_idk * gt_is_idk, pred_is_idk + gt_is_idk])
    return ratio(sums[:, 0], sums[:, 1])
