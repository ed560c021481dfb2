"""Accuracy where there is an answer."""

from qualm.runners.contracts.metrics import Floats, Weights, mean

HIGHER_IS_BETTER = True
ROW_BY_ROW = True
INCREASES_WITH = "correct"
INTERVAL = "proportion"
OVER = "answerable"


def answerable_accuracy(correct: Floats, answerable: Floats, weights: Weights) -> Floats:
    """Mean correctness over the answerable questions: it must not fall when a model learns to decline.

    mean(correct) over rows with answerable = 1, in [0, 1], higher is better. A refusal counts as wrong here. Undefined
    without answerable questions.
    """
    return mean(correct, answerable, weights)
