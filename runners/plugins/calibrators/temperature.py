"""Temperature scaling. Guo, Pleiss, Sun, Weinberger, On Calibration of Modern Neural Networks, ICML 2017."""

import numpy as np

from qualm.runners.contracts.grouped_weights import Floats, Weights
from qualm.runners.scoring.calibration.logistic import softmax_at_temperatures, temperatures

CITES = ["guo2017calibration"]
OPTIONS = True
PROBABILITIES = True


def temperature(score: Floats, right: Floats, weights: Weights, at: Floats) -> Floats:
    """Return (B, m[, K]) probabilities of logits `at` divided by the best-fitting temperature.

    Above 1 probabilities become less extreme, below 1 more. The order of options does not change, so accuracy stays; for open questions the
    order of answers by confidence stays too. For probabilities only: log odds of 0 stay 0.
    """
    if score.ndim == 2:
        target = np.nansum(right * score, axis=1)
        return softmax_at_temperatures(at, temperatures(score, target, weights))
    pair = np.column_stack([np.zeros_like(score), score])
    fits = temperatures(pair, right * score, weights)
    return softmax_at_temperatures(np.column_stack([np.zeros_like(at), at]), fits)[:, :, 1]
