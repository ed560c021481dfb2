"""Accuracy where there is an answer."""

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

META = MetricMeta(higher_is_better=True, interval="proportion", over="answerable", increases_with="correct", row_by_row=True)


def answerable_accuracy(correct: Floats, answerable: Floats, weights: Weights) -> Floats:
    """Mean correctness over the answerable questions, where a refusal counts as wrong.

    mean(correct) over rows with answerable = 1, in [0, 1], higher is better. A refusal counts as wrong here. Undefined
    without answerable questions.
    """
    return mean(correct, answerable, weights)
