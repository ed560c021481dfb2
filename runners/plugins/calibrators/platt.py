"""Platt scaling. Platt, Probabilistic Outputs for Support Vector Machines, Advances in Large Margin Classifiers, 1999."""

from qualm.runners.contracts.grouped_weights import Floats, Weights
from qualm.runners.scoring.calibration.logistic import sigmoids

CITES = ["platt1999probabilistic"]


def platt(score: Floats, right: Floats, weights: Weights, at: Floats, *, prior_correction: bool = True) -> Floats:
    """Return (B, m) P(right) at `at`: sigmoid(a * score + b), fitted by the log-loss.

    A score that is higher where answers are wrong gets a negative a. A confidence enters as its log odds.

    Args:
        prior_correction: As Platt did, hold the sigmoid to (N1 + 1) / (N1 + 2) where answers are right and 1 / (N0 + 2) where they are
            wrong, N1 and N0 being how many are, so that there is a fit even where a threshold separates them. Without it this is
            logistic regression, and undefined there.
    """
    from scipy.special import expit

    fits = sigmoids(score, right, weights, prior_correction)
    odds: Floats = expit(fits[:, :1] * at + fits[:, 1:])
    return odds
