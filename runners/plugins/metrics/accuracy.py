"""Share of right answers."""

from qualm.runners.contracts.metrics import Floats, Weights, mean

HIGHER_IS_BETTER = True
ROW_BY_ROW = True
INCREASES_WITH = "correct"
INTERVAL = "proportion"


def accuracy(correct: Floats, is_calibration: Floats, weights: Weights) -> Floats:
    """Mean correctness of the test rows.

    mean(correct), in [0, 1], higher is better. A multiple-choice answer is right if the first of the likeliest options
    is the truth; an open answer counts what its judge gave (0, 0.5 or 1). Undefined without test rows.
    """
    return mean(correct, 1 - is_calibration, weights)
