"""Share of right answers."""

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

META = MetricMeta(higher_is_better=True, interval="proportion", increases_with="correct", row_by_row=True)


def accuracy(correct: Floats, is_calibration: Floats, weights: Weights) -> Floats:
    """Mean correctness of the test rows.

    mean(correct), in [0, 1], higher is better. A multiple-choice answer is right if the first of the likeliest options
    is the truth; an open answer counts what its judge gave (0, 0.5 or 1). Undefined without test rows.
    """
    return mean(correct, 1 - is_calibration, weights)
