"""Score under a confidence target. Why Language Models Hallucinate: Kalai, Nachum, Vempala, Zhang, 2025."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Lt
from numpy.typing import NDArray

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean
from qualm.runners.scoring.measuring.bounded_means import mean_loss_interval

CITES = ["kalai2025language"]
META = MetricMeta(higher_is_better=True, interval="own", increases_with="correct", row_by_row=True)


def confidence_target(correct: Floats, pred_is_idk: Floats, weights: Weights, *, t: Annotated[float, Ge(0), Lt(1)] = 0.5) -> Floats:
    """Mean points: a right answer earns 1, a mistake costs t / (1 - t), abstaining earns 0.

    mean(s), s = 0 if the answer abstains, else correct - (1 - correct) t / (1 - t). In [-t / (1 - t), 1], higher is better; above 0 is
    better than abstaining always. An answer pays exactly if its probability of being right is above t, which `confidence_target: t` of
    the prompt tells the model. Abstaining earns 0 also on unanswerable questions. With t = 0 it is accuracy with abstentions as wrong.
    Undefined without rows.

    Args:
        t: Confidence above which an answer pays; the paper proposes 0.5, 0.75 and 0.9 (a list is a sweep).
    """
    points = (correct - (1 - correct) * _penalty(t)) * (1 - pred_is_idk)
    return mean(points, np.ones_like(points), weights)


def interval(correct: Floats, pred_is_idk: Floats, group: NDArray[np.int64], level: float, *, t: float = 0.5) -> tuple[float, float]:
    """Return the (low, high) interval of mean points, from the points each answer may earn."""
    answered = 1 - pred_is_idk
    return mean_loss_interval((correct - (1 - correct) * _penalty(t)) * answered, -_penalty(t) * answered, answered, group, level)


def bounds(*, t: float = 0.5) -> tuple[float, float]:
    """Return (mean points if all questions were answered wrong, points if all right)."""
    return -_penalty(t), 1.0


def _penalty(t: float) -> float:
    return t / (1 - t)
