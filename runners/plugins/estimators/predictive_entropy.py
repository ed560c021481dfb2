"""Predictive entropy: the entropy of the distribution of answers, estimated from sampled ones.

Malinin and Gales, ICLR 2021; the baseline of Kuhn et al., ICLR 2023, with and without length normalisation.
"""

from typing import Literal

import numpy as np

from qualm.runners.contracts.estimators import Draws, Floats

CITES = ["malinin2021uncertainty", "kuhn2023semantic"]
NEEDS = ["draw_logprobs"]


def predictive_entropy(draw_logprobs: Draws, *, per: Literal["answer", "token"] = "answer") -> Floats:
    """Return each question's mean negative log-probability of its sampled answers, in nats.

    U = -(1/N) sum_i l_i with l_i the log-probability of draw i (at temperature 1, end of sequence included): its sum over tokens, a Monte
    Carlo estimate of the entropy of whole answers, or with `token` its mean, the length-normalised form. In nats, from 0 up, higher =
    more uncertain. Answers that mean the same count apart; `semantic_entropy` joins them. The draws are taken at the spec's temperature,
    so only at temperature 1 is this an unbiased estimate of the model's entropy. Undefined where a draw has no tokens.

    Example: draws with token probabilities (.4), (.5, .2), (.1) give 1.840486, and 1.456723 per token.

    Args:
        per: whole answers, or tokens: each draw's mean, so that long answers do not weigh more.
    """
    of = np.sum if per == "answer" else np.mean
    return np.array(
        [-np.mean([of(row) for row in rows]) + 0.0 if rows and all(map(len, rows)) else np.nan for rows in draw_logprobs], dtype=np.float64
    )
