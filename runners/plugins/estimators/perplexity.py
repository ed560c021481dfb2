"""Perplexity of the answer, as LM-Polygraph (Fadeeva et al., 2023) names it."""

from typing import Literal

import numpy as np

from qualm.runners.contracts.estimators import Floats, Rows, means

CITES = ["fadeeva2023lmpolygraph"]
NEEDS = ["token_logprobs"]


def perplexity(token_logprobs: Rows, *, form: Literal["log", "exp"] = "log") -> Floats:
    """Return each answer's mean negative log-probability per token, or e to that.

    `log`: U = -(1/T) sum_t ln p_t, in nats, from 0 up, which is what LM-Polygraph calls perplexity. `exp`: e to that, the
    textbook's perplexity, from 1 up. Both rank alike. Higher = more uncertain. Undefined for an empty generation.

    Example: token probabilities .9, .5, .8 give .340550, and 1.405721 in the exp form.

    Args:
        form: Mean negative log-probability, or its exponential.
    """
    value = -means(token_logprobs) + 0.0
    return np.exp(value) if form == "exp" else value
