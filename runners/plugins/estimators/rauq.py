"""RAUQ: recurrent attention-based uncertainty quantification (Vazhentsev et al., 2025), as LM-Polygraph computes it."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from qualm.runners.contracts.estimators import Floats, Rows

CITES = ["vazhentsev2025rauq"]
NEEDS = {"token_logprobs": "token_logprobs", "attention": "attention/{layers}/previous"}


def rauq(token_logprobs: Rows, attention: Rows, *, layers: str = "middle_third", alpha: Annotated[float, Ge(0), Le(1)] = 0.2) -> Floats:
    """Return each answer's mean -ln confidence, passed on by attention; highest over layers.

    c₁ = p₁ and cᵢ = α pᵢ + (1 − α) aᵢ cᵢ₋₁ with p the tokens' probabilities and aᵢ the attention, while token i is predicted, to token
    i − 1, by the head of a layer that gives it most on average over the answer. U = max over layers of −(1/T) Σ ln cᵢ, in nats, from 0 up,
    higher = more uncertain; +inf where a confidence is 0. LM-Polygraph's value is 1 more. Undefined for an answer of one token, which
    follows none. Made in 2025 for texts; a short answer has few tokens by which it could differ from perplexity.

    Example: probabilities .8, .5, .9 and attentions .5, .25 with α = .2 have c = .8, .42, .264 and U = .807483.

    Args:
        layers: `middle_third`, as the paper has it; `all`; or FROM:TO, both included, as numbers from 1 or shares of the depth.
        alpha: Weight of a token's own probability. The paper: 0.2.
    """
    values = [
        _max_over_layers(np.exp(logprobs), own.reshape(-1, len(logprobs) - 1), alpha) if len(logprobs) > 1 else np.nan
        for logprobs, own in zip(token_logprobs, attention, strict=True)
    ]
    return np.array(values, dtype=np.float64)


def _max_over_layers(probabilities: Floats, attention: Floats, alpha: float) -> float:
    """Return the highest mean of -ln c over the layers; `attention` is (layers, tokens - 1)."""
    confidence = np.empty((len(attention), len(probabilities)))
    confidence[:, 0] = probabilities[0]
    for i in range(1, len(probabilities)):
        confidence[:, i] = alpha * probabilities[i] + (1 - alpha) * attention[:, i - 1] * confidence[:, i - 1]
    with np.errstate(divide="ignore"):
        return float(-np.log(confidence).mean(axis=1).min() + 0.0)
