"""Accuracy of sampled answers."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

META = MetricMeta(higher_is_better=True, interval="proportion", increases_with="sampled_correct", companions=["sampling_share"])


def sampled_accuracy(sampled_correct: Floats, weights: Weights) -> Floats:
    """Mean correctness of sampled answers, every question counting alike.

    The mean over questions of the mean rating of their k sampled answers, in [0, 1], higher is better: what answers at
    `inference.temperature` are worth, where `accuracy` is of the greedy answer. All sampled answers are judged. The sampled
    answers of a question are resampled together with it, so that the interval includes the sampling; `sampling_share` says
    how much of it is sampling. A question with an unread sampled answer is unscored. Undefined without such questions.
    """
    return mean(sampled_correct, np.ones_like(sampled_correct), weights)
