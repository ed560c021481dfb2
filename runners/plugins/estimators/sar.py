"""SAR: token-SAR and sentence-SAR together (Duan et al., ACL 2024), as LM-Polygraph computes it."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import Draws, EstimatorContext, Floats, Texts
from qualm.runners.plugins.estimators._likeness import likeness
from qualm.runners.plugins.estimators._relevance import relevances, weighted_surprises

CITES = ["duan2024shifting"]
NEEDS = {"draw_texts": "draw_texts", "draw_logprobs": "draw_logprobs", "ends": "draw_token_ends"}


def sar(
    context: EstimatorContext,
    draw_texts: Texts,
    draw_logprobs: Draws,
    ends: Draws,
    *,
    similarity: Literal["entailment", "contradiction", "cosine", "jaccard"] = "entailment",
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
    temperature: Annotated[float, Gt(0)] = 0.001,
) -> Floats:
    """Return each question's improbability of relevant tokens, less if sampled answers agree.

    U = −(1/N) Σᵢ ln(qᵢ + (1/temperature) Σⱼ≠ᵢ gᵢⱼ qⱼ) with qᵢ = exp(−token-SAR of draw i) and g the draws' likeness, in nats, of any
    sign, higher = more uncertain. Undefined with fewer than two draws, and where no token of a draw has any weight. `token_sar` explains
    the weights of tokens, `sentence_sar` the rest of the formula.

    Example: draws "red", "red", "blue" whose one word has probability .4, .2, .1 give −2.996565, as sentence-SAR does.

    Args:
        similarity: likeness is the probability of entailment, 1 minus that of contradiction, (1 + cosine of the embeddings) / 2, or shared
            words over all words (Jaccard).
        nli: NLI model for entailment, or an encoder (`embedding`) for cosine; not used with jaccard.
        temperature: the lower, the more the other draws count compared with the draw itself; the paper's is .001.
    """
    flat = [(text, own, end) for row in zip(draw_texts, draw_logprobs, ends, strict=True) for text, own, end in zip(*row, strict=True)]
    relevance = relevances(context, [text for text, _, _ in flat], [end for _, _, end in flat], similarity, nli)
    surprises = weighted_surprises(relevance, [own for _, own, _ in flat])
    bounds = np.cumsum([0, *map(len, draw_texts)])
    alike = likeness(context, draw_texts, similarity, nli)
    return np.array([_mean(surprises[a:b], g, temperature) for a, b, g in zip(bounds, bounds[1:], alike, strict=False)], dtype=np.float64)


def _mean(surprises: Floats, alike: Floats, temperature: float) -> float:
    if len(surprises) < 2 or np.isnan(surprises).any():
        return float("nan")
    share = (alike + alike.T) / (2 * temperature)
    np.fill_diagonal(share, 1.0)
    with np.errstate(divide="ignore"):
        return float(-np.logaddexp.reduce(np.log(share) - surprises, axis=1).mean())
