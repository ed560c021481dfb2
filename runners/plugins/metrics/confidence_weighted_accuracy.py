"""Confidence-weighted accuracy. CertainlyUncertain: Chandu et al., 2025 (ICLR)."""

import numpy as np

from qualm.runners.contracts.metrics import Floats, Weights, mean

CITES = ["chandu2025certainlyuncertain"]
HIGHER_IS_BETTER = True


def confidence_weighted_accuracy(confidence: Floats, correct: Floats, weights: Weights) -> Floats:
    """Accuracy that rewards being sure when right and punishes being sure when wrong.

    mean(c), c = correct * confidence where correct > 0, else -confidence. In [-1, 1] (the paper prints it times 100),
    higher is better. A half-right answer earns half its confidence; a confidence of 0 earns and costs nothing. Undefined
    without rows; answers without a confidence are left out and counted.
    """
    score = np.where(correct > 0, correct * confidence, -confidence)
    return mean(score, np.ones_like(score), weights)
