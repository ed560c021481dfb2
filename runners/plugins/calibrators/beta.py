"""Beta calibration (Kull, Silva Filho, Flach, 2017).

"Beta calibration: a well-founded and easily implemented improvement on logistic calibration for binary classifiers", AISTATS 2017.
"""

import numpy as np

from qualm.runners.contracts.grouped_weights import Floats, Weights
from qualm.runners.scoring.calibration.beta_curves import beta_curves

CITES = ["kull2017beta"]
ALSO_KNOWN_AS = ["beta_calibration", "beta_scaling", "beta_scaler"]
PROBABILITIES = True


def beta(score: Floats, right: Floats, weights: Weights, at: Floats) -> Floats:
    """Return (B, m) P(right) at `at`: a fitted sigmoid(a ln p - b ln(1 - p) + c), a, b >= 0.

    With a = b it is `platt` of log odds without its prior correction, with a = b = 1 and c = 0 the probability as it is. Where the best
    a or b would be negative, which would turn the order of some answers round, it is 0. For probabilities only. There is no fit where a
    threshold separates right from wrong.
    """
    from scipy.special import expit

    fits = beta_curves(score, right, weights)
    with np.errstate(invalid="ignore"):
        odds: Floats = expit(-fits[:, :1] * np.logaddexp(0, -at) + fits[:, 1:2] * np.logaddexp(0, at) + fits[:, 2:])
    return odds
