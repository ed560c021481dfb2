"""Agreement of the scoring judge with people."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

META = MetricMeta(higher_is_better=True, interval="proportion", over="labelled")


def judge_agreement(correct: Floats, people_rating: Floats, labelled: Floats, is_calibration: Floats, weights: Weights) -> Floats:
    """Return 1 minus the mean absolute difference between the judge's and people's ratings.

    1 - mean |correct - people_rating| over the labelled test answers, in [0, 1], higher is better: for ratings of 0 and 1 the share of
    equal ratings. n is their number. Undefined without labelled answers.
    """
    return mean(1 - np.abs(correct - people_rating), labelled * (1 - is_calibration), weights)
