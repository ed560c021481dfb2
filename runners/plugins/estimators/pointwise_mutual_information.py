"""Mean pointwise mutual information of the answer and what was asked (Takayama and Arase, 2019), as in LM-Polygraph."""

from typing import Literal

import numpy as np

from qualm.runners.contracts.estimators import Floats, Rows, means

CITES = ["fadeeva2023lmpolygraph", "takayama2019relevant"]
NEEDS = {"token_logprobs": "token_logprobs", "prior_logprobs": "logprobs_without_{without}"}


def pointwise_mutual_information(
    token_logprobs: Rows, prior_logprobs: Rows, *, without: Literal["both", "image", "question"] = "both"
) -> Floats:
    """Return minus each answer's mean log-ratio of token probabilities with and without input.

    U = -(1/T) sum_t [ln p(y_t | y_<t, image, question) - ln p(y_t | y_<t, what is left)], in nats, of any sign, higher = more uncertain:
    the answer would have come without them too. Over all tokens, the first and the end of sequence included. Undefined for an empty
    generation; a token that was impossible without them makes it -inf.

    LM-Polygraph 0.7 leaves the first token's prior out, reads the others one place off, and keeps the image in the prior of its visual
    path, so its values differ.

    Example: token probabilities .7, .5, .9 with priors .3, .4, .6 give -.491969.

    Args:
        without: what the prior is without: `both`, the `image` (is it looked at?), or the `question`.

    Raises:
        ValueError: an answer whose tokens and priors differ in number.
    """
    for row, (own, prior) in enumerate(zip(token_logprobs, prior_logprobs, strict=True)):
        if len(own) != len(prior):
            raise ValueError(f"row {row}: {len(own)} log-probabilities of the answer's tokens, {len(prior)} without {without}")
    return -means([np.subtract(own, prior) for own, prior in zip(token_logprobs, prior_logprobs, strict=True)]) + 0.0
