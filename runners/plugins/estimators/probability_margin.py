"""Probability margin, as uqlm computes it (Bouchard and Chauhan, 2025)."""

import numpy as np

from qualm.runners.contracts.estimators import Draws, Floats, means

CITES = ["bouchard2025generalized"]
NEEDS = ["top_logprobs"]


def probability_margin(top_logprobs: Draws) -> Floats:
    """Return 1 minus each answer's mean gap between the two largest token probabilities.

    U = 1 - (1/T) sum_t (p_t1 - p_t2), p_t1 and p_t2 the two largest probabilities at the position of token t, in [0, 1], higher = more
    uncertain. uqlm's `probability_margin` is 1 - U. Undefined for an empty generation, and where a server shows fewer than two tokens.

    Example: largest probabilities (.9, .1), (.5, .3), (.8, .1) give .433333.
    """
    return 1.0 - means([np.array([np.exp(p[0]) - np.exp(p[1]) for p in rows], dtype=np.float64) for rows in top_logprobs])
