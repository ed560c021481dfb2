"""Sentence-SAR (Duan et al., ACL 2024, equations 7 to 9), as LM-Polygraph computes it."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import Draws, EstimatorContext, Floats, Texts
from qualm.runners.plugins.estimators._likeness import likeness

CITES = ["duan2024shifting"]
NEEDS = ["draw_texts", "draw_logprobs"]


def sentence_sar(
    context: EstimatorContext,
    draw_texts: Texts,
    draw_logprobs: Draws,
    *,
    similarity: Literal["entailment", "contradiction", "cosine", "jaccard"] = "entailment",
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
    temperature: Annotated[float, Gt(0)] = 0.001,
) -> Floats:
    """Return each question's improbability of sampled answers, in nats, less if alike.

    U = -(1/N) sum_i ln(p_i + (1/temperature) sum_{j != i} g_ij p_j) with p the probabilities of the draws (at temperature 1, end of
    sequence included) and g their likeness, in nats, of any sign, higher = more uncertain. Undefined with fewer than two draws, and where
    one has no tokens. The paper's g is a cross-encoder's score; here it is `similarity`, on average over both directions.

    Example: probabilities .4, .2, .1 of "red", "red", "blue" give -2.996565.

    Args:
        similarity: likeness is the probability of entailment, 1 minus that of contradiction, (1 + cosine of the embeddings) / 2, or shared
            words over all words (Jaccard).
        nli: NLI model for entailment, or an encoder (`embedding`) for cosine; not used with jaccard.
        temperature: the lower, the more the other draws count compared with the draw itself; the paper's is .001.
    """
    alike = likeness(context, draw_texts, similarity, nli)
    return np.array([_mean(own, g, temperature) for own, g in zip(draw_logprobs, alike, strict=True)], dtype=np.float64)


def _mean(logprobs: list[Floats], alike: Floats, temperature: float) -> float:
    if len(logprobs) < 2 or not all(map(len, logprobs)):
        return float("nan")
    share = (alike + alike.T) / (2 * temperature)
    np.fill_diagonal(share, 1.0)
    with np.errstate(divide="ignore"):
        terms = np.log(share) + np.array([row.sum() for row in logprobs])
    return float(-np.logaddexp.reduce(terms, axis=1).mean())
