"""Can uncertainty find the questions that have no answer? VizWiz: Gurari et al., 2018 (CVPR), its second task."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.ranking import tie_sums

CITES = ["gurari2018vizwiz"]
META = MetricMeta(higher_is_better=True, interval="proportion")


def answerability_average_precision(uncertainty: Floats, answerable: Floats, weights: Weights) -> Floats:
    """Average precision of calling a question unanswerable where the model is uncertain.

    AP = sum over thresholds t, from the most uncertain down, of (R_t - R_before) P_t: P_t is the share of unanswerable questions
    among those with u >= t, R_t the share of all unanswerable ones that these are; equal u are one threshold. As in the official
    evaluator the positive class is "unanswerable". In [0, 1], higher is better; chance is the share of unanswerable questions.
    Undefined where all questions can be answered. That evaluator's F1 is over what the model calls unanswerable: `f1_idk`.
    """
    if not len(answerable):
        return np.full(weights.shape[0], np.nan)
    positive, negative = tie_sums(-uncertainty, [1 - answerable, answerable], weights)
    hits = np.cumsum(positive, axis=1)
    precision = np.nan_to_num(ratio(hits, hits + np.cumsum(negative, axis=1)))
    return ratio((positive * precision).sum(axis=1), hits[:, -1])


def why_undefined(uncertainty: Floats, answerable: Floats) -> str:
    """Return the reason for an undefined value; called only where the value is NaN."""
    return "every question can be answered"


def classes(uncertainty: Floats, answerable: Floats) -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where the question is answerable."""
    return answerable


def chance(answerable: Floats) -> float:
    """Return the value of an uncertainty without information: the unanswerable share."""
    return 1 - float(answerable.mean())
