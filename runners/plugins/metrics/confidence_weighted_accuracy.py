"""Confidence-weighted accuracy. CertainlyUncertain: Chandu et al., 2025 (ICLR)."""

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean
from qualm.runners.scoring.measuring.bounded_means import mean_loss_interval

CITES = ["chandu2025certainlyuncertain"]
META = MetricMeta(higher_is_better=True, interval="own", increases_with="correct", row_by_row=True)


def confidence_weighted_accuracy(confidence: Floats, correct: Floats, weights: Weights) -> Floats:
    """Mean of the confidence in right answers and of minus the confidence in wrong ones.

    mean(c), c = correct * confidence where correct > 0, else -confidence. In [-1, 1] (the paper prints it times 100),
    higher is better. A half-right answer earns half its confidence; a confidence of 0 earns and costs nothing. Undefined
    without rows; answers without a confidence are left out and counted.
    """
    score = np.where(correct > 0, correct * confidence, -confidence)
    return mean(score, np.ones_like(score), weights)


def interval(confidence: Floats, correct: Floats, group: NDArray[np.int64], level: float) -> tuple[float, float]:
    """Return the (low, high) interval of the mean, each score lying within +-confidence."""
    score = np.where(correct > 0, correct * confidence, -confidence)
    return mean_loss_interval(score, -confidence, confidence, group, level)


def bounds() -> tuple[float, float]:
    """Return the lowest and highest possible value, -1 and 1."""
    return -1.0, 1.0
