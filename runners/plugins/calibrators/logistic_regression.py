"""Ridge logistic regression of one or several standardised scores. le Cessie, van Houwelingen, 1992."""

from typing import Annotated

from annotated_types import Gt

from qualm.runners.contracts.grouped_weights import Floats, Weights
from qualm.runners.scoring.calibration.ridge import ridge_fits

CITES = ["lecessie1992ridge"]
SEVERAL = True


def logistic_regression(score: Floats, right: Floats, weights: Weights, at: Floats, *, l2: Annotated[float, Gt(0)] = 1.0) -> Floats:
    """Return (B, m) P(right) at `at`: ridge logistic regression on standardised scores.

    z_j is score j with mean 0 and standard deviation 1 over the answers that calibrate, in each resample anew. This is scikit-learn's
    `StandardScaler` and `LogisticRegression(C=1 / l2)`. Of several scores (`of: [[confidence, perplexity]]`) it is a tuned ensemble. A
    score that is constant gets no weight. In [0, 1]; undefined in resamples in which all answers are right, or none.

    Args:
        l2: Strength of the penalty: near 0 the fit follows the answers, large values shrink all weights to 0.
    """
    from scipy.special import expit

    columns, read = (of[:, None] if of.ndim == 1 else of for of in (score, at))
    slopes, shifts = ridge_fits(columns, right, weights, l2)
    odds: Floats = expit(slopes @ read.T + shifts[:, None])
    return odds
