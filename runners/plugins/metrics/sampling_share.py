"""Sampling's share of the variance of the accuracy of sampled answers. Miller, 2024 (arXiv 2411.00640)."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio

META = MetricMeta(higher_is_better=None, interval="none", why_no_interval="it describes what the interval of `sampled_accuracy` is made of")


def sampling_share(sampled_correct: Floats, sampling_variance: Floats, weights: Weights) -> Floats:
    """Share of the variance of `sampled_accuracy` that is due to the sampling of answers.

    mean(s_q^2 / k) / S^2, with s_q^2 the variance of the k ratings of question q and S^2 that of the questions' mean ratings:
    one-way analysis of variance with random questions, in which S^2 estimates the variance between questions plus s^2 / k. In
    [0, 1], 1 where questions differ by no more than sampling explains. More sampled answers per question (`inference.draws`)
    shrink this share alone; the rest shrinks with more questions. Questions count as independent. Undefined with fewer than two
    sampled answers for each question, fewer than two questions, or mean ratings that are all equal.
    """
    ones = np.ones_like(sampled_correct)
    # Around the mean, which sums of squares would lose in rounding.
    centred = sampled_correct - (sampled_correct.mean() if len(sampled_correct) else 0.0)
    n, within, first, second = (weights @ np.column_stack([ones, sampling_variance, centred, centred**2])).T
    between = ratio(second - ratio(first, n) * first, n - 1)
    return np.minimum(1.0, ratio(ratio(within, n), np.where(between > 1e-15, between, 0.0)))
