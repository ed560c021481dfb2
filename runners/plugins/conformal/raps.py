"""Regularised adaptive prediction sets, RAPS. Angelopoulos, Bates, Malik, Jordan, 2021 (ICLR)."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from qualm.runners.contracts.conformal import Floats

CITES = ["angelopoulos2021uncertainty", "romano2020classification"]


def raps(
    probs: Floats, uniform: Floats, *, penalty: Annotated[float, Ge(0)] = 0.01, k_reg: Annotated[int, Ge(0)] = 1, randomised: bool = True
) -> Floats:
    """Sum as `aps_randomised`, with a penalty for high ranks.

    S(x, y) = mass of p_j > p_y + u p_y + penalty * max(0, rank of y - k_reg), rank 1 being the likeliest; equal options have the larger
    mass and rank, as `aps` has it. Higher = fits worse. The penalty keeps unlikely options out, so that no set is very large; the mean
    size falls where options are many and the probabilities of most are noise, and need not with six. The guarantee is the same: coverage
    of at least 1 - alpha on average over calibration and test questions (and u) that are exchangeable. u is drawn once for every question,
    from its name and the setting's seed, so a set is the same wherever and however it is computed. Randomised sets can be empty where one
    option is likely; `empty_set` says what becomes of these.

    Args:
        probs: (n, K), NaN beyond a question's last option.
        uniform: (n,) u, in [0, 1).
        penalty: lambda of the paper; 0 is randomised `aps`.
        k_reg: Ranks without a penalty. The paper tunes both on held-out questions, for a thousand classes; of four to six options only
            ranks below this one can be penalised.
        randomised: False sets u = 1: coverage then exceeds 1 - alpha, by up to the probability that a whole option adds.

    Returns:
        (n, K) scores, NaN where `probs` is.
    """
    at_least = probs[:, None, :] >= probs[:, :, None]
    mass = np.minimum((np.nan_to_num(probs)[:, None, :] * at_least).sum(axis=2), 1.0)
    u = uniform[:, None] if randomised else 1.0
    return np.where(np.isnan(probs), np.nan, mass - (1 - u) * probs + penalty * np.maximum(at_least.sum(axis=2) - k_reg, 0))
