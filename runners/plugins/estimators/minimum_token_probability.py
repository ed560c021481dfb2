"""The least likely token: Potsawee Manakul, Adian Liusie, Mark Gales, "SelfCheckGPT", EMNLP 2023 (2303.08896), its Max(-log p)."""

import numpy as np

from qualm.runners.contracts.estimators import Floats, Rows

CITES = ["manakul2023selfcheckgpt"]
NEEDS = ["token_logprobs"]


def minimum_token_probability(token_logprobs: Rows) -> Floats:
    """Return the negative log-probability, in nats, of each answer's least likely token.

    U = -min_t ln p_t over the greedy answer's tokens, end of sequence included, in nats, from 0 up, higher = more uncertain. Of an answer
    of one word it differs little from `max_sequence_probability`; of a long one it is not diluted by the tokens that are certain.
    Undefined for an empty generation.

    Example: token probabilities .9, .5, .8 give .693147.
    """
    return np.array([-row.min() + 0.0 if len(row) else np.nan for row in token_logprobs], dtype=np.float64)
