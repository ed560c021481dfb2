"""Regularised adaptive prediction sets, RAPS. Angelopoulos, Bates, Malik, Jordan, 2021 (ICLR)."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from qualm.runners.contracts.grouped_weights import Floats

CITES = ["angelopoulos2021uncertainty", "romano2020classification"]


def raps(
    probs: Floats, uniform: Floats, *, penalty: Annotated[float, Ge(0)] = 0.01, k_reg: Annotated[int, Ge(0)] = 1, randomised: bool = True
) -> Floats:
    """Return (n, K) scores of `aps_randomised` plus a penalty per rank beyond `k_reg`.

    S(x, y) = mass of p_j > p_y + u p_y + penalty * max(0, rank of y - k_reg), rank 1 being the likeliest; equal options have the larger
    mass and rank, as `aps` has it. Higher = fits worse. The penalty keeps unlikely options out: sets are smaller if there are many
    options of which most are noise, not necessarily with six. The guarantee and u are those of `aps_randomised`; sets can be empty
    (`empty_set`).

    Args:
        probs: (n, K), NaN beyond a question's last option.
        uniform: (n,) u, in [0, 1).
        penalty: lambda of the paper; 0 is randomised `aps`.
        k_reg: Ranks without a penalty. The paper tunes both on held-out questions, for a thousand classes; of four to six options only
            ranks below this one can be penalised.
        randomised: False sets u = 1: coverage then exceeds 1 - alpha, by up to the probability that a whole option adds.
    """
    at_least = probs[:, None, :] >= probs[:, :, None]
    mass = np.minimum((np.nan_to_num(probs)[:, None, :] * at_least).sum(axis=2), 1.0)
    u = uniform[:, None] if randomised else 1.0
    return np.where(np.isnan(probs), np.nan, mass - (1 - u) * probs + penalty * np.maximum(at_least.sum(axis=2) - k_reg, 0))
