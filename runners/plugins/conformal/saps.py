"""Sorted adaptive prediction sets, SAPS. Huang, Xi, Zhang, Yao, Qiu, Wei, 2024 (ICML)."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from qualm.runners.contracts.grouped_weights import Floats

CITES = ["huang2024conformal"]
ALSO_KNOWN_AS = ["sorted_aps", "sorted_adaptive_prediction_sets"]


def saps(probs: Floats, uniform: Floats, *, weight: Annotated[float, Ge(0)] = 0.1) -> Floats:
    """Return (n, K) scores: u * p_max at rank 1, else p_max + (rank - 2 + u) * `weight`.

    S(x, y) = u p_max for the likeliest option, else p_max + (rank of y - 2 + u) * weight, rank 1 being the likeliest; equal options have
    the larger rank. Higher = fits worse. The guarantee and u are those of `aps_randomised`; sets can be empty (`empty_set`).

    Args:
        probs: (n, K), NaN beyond a question's last option.
        uniform: (n,) u, in [0, 1).
        weight: lambda of the paper, which chooses it on held-out questions, from .02 to .65.
    """
    u = uniform[:, None]
    rank = (probs[:, None, :] >= probs[:, :, None]).sum(axis=2)
    top = np.nanmax(probs, axis=1, keepdims=True)
    return np.where(np.isnan(probs), np.nan, np.where(rank == 1, u * top, top + (rank - 2 + u) * weight))
