"""Best F1 over all thresholds of uncertainty. VLM-UQBench: Wang, Chen, Ahmad, Batmanghelich, Li."""

import math

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, explain_one_class, ratio
from qualm.runners.scoring.ranking import tie_sums

CITES = ["wang_vlmuqbench"]
META = MetricMeta(higher_is_better=True, interval="optimistic", companions=["best_f1_floor"])


def best_f1(uncertainty: Floats, uncertain: Floats, weights: Weights) -> Floats:
    """F1 of calling a question uncertain if u >= t, at the threshold t that maximises it.

    max over t of 2 TP / (called uncertain + truly uncertain), positive = questions that are meant to be uncertain; every
    distinct u is a threshold and so is -inf (call all of them uncertain), so the value is never below `best_f1_floor`, which
    is always computed beside it: a value near that floor says nothing about the estimator. In [0, 1], higher is better. The threshold is
    chosen on the very questions it is scored on, as in the paper: optimistic. Undefined where all questions are uncertain or none is.
    """
    if not len(uncertain):
        return np.full(weights.shape[0], np.nan)
    positive, negative = tie_sums(-uncertainty, [uncertain, 1 - uncertain], weights)
    hit, false_alarm = np.cumsum(positive, axis=1), np.cumsum(negative, axis=1)
    total, others = hit[:, -1:], false_alarm[:, -1:]
    f1 = ratio(2 * hit, hit + false_alarm + total).max(axis=1, initial=0.0, where=total + hit + false_alarm > 0)
    return np.where((total[:, 0] > 0) & (others[:, 0] > 0), f1, np.nan)


def why_undefined(uncertainty: Floats, uncertain: Floats) -> str:
    """Return the reason for an undefined value; called only where the value is NaN."""
    return explain_one_class(uncertain)


def classes(uncertainty: Floats, uncertain: Floats) -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where the question is uncertain."""
    return uncertain


def minimum_standard_error(uncertainty: Floats, uncertain: Floats, value: float) -> float:
    """Return the smallest credible standard error at this value: of independent questions.

    F1 = 2 J / (1 + J), J the share of hits among the questions that are uncertain or called so: a share of as many questions at
    least as are uncertain, so that its error carries over (delta method).
    """
    share = value / (2 - value)
    return (2 - value) ** 2 / 2 * math.sqrt(share * (1 - share) / max(1.0, float(uncertain.sum())))
