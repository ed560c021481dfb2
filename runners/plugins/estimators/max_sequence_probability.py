"""Maximum sequence probability (MSP), the plainest baseline of LM-Polygraph (Fadeeva et al., 2023)."""

import numpy as np

from qualm.runners.contracts.estimators import Floats, Rows, sums

CITES = ["fadeeva2023lmpolygraph"]
NEEDS = ["token_logprobs"]


def max_sequence_probability(token_logprobs: Rows) -> Floats:
    """Return each answer's negative log-probability, in nats; NaN if it is empty.

    U = -sum_t ln p_t, in nats, from 0 up, higher = more uncertain; end of sequence included. Grows with length: long
    answers look uncertain. +inf if a token had probability 0; undefined for an empty generation.

    Example: token probabilities .9, .5, .8 give 1.021651.
    """
    total, length = sums(token_logprobs)
    return np.where(length > 0, -total + 0.0, np.nan)
