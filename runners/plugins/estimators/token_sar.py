"""Token-SAR (Duan et al., ACL 2024, equations 3 to 5), as LM-Polygraph computes it."""

from collections.abc import Sequence
from typing import Annotated, Literal

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import EstimatorContext, Floats, Rows
from qualm.runners.plugins.estimators._relevance import relevances, weighted_surprises

CITES = ["duan2024shifting"]
NEEDS = {"text": "text", "token_logprobs": "token_logprobs", "ends": "token_ends"}


def token_sar(
    context: EstimatorContext,
    text: Sequence[str],
    token_logprobs: Rows,
    ends: Rows,
    *,
    similarity: Literal["entailment", "contradiction", "cosine", "jaccard"] = "entailment",
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
) -> Floats:
    """Return each answer's mean -ln p of its tokens, weighted by relevance to its meaning.

    U = −Σ rₜ ln pₜ / Σ rₜ with rₜ = 1 − g(y, y without token t), in nats, from 0 up, higher = more uncertain. The end of sequence, and any
    other token without which the text is the same, has weight 0; so for an answer of one token U is that token's -ln p. Undefined where no
    token has any weight (LM-Polygraph: 0), as in an answer without text. The paper's g is a cross-encoder's score of the answers behind
    their question; here it is `similarity` of the answers, on average over both directions.

    Example: "red cube" of tokens "red", " cube" and the end, of probability .5, .8, .9, has weights 1, 1, 0 by shared words: U = .458145.

    Args:
        similarity: likeness is the probability of entailment, 1 minus that of contradiction, (1 + cosine of the embeddings) / 2, or shared
            words over all words (Jaccard).
        nli: NLI model for entailment, or an encoder (`embedding`) for cosine; not used with jaccard.
    """
    return weighted_surprises(relevances(context, text, ends, similarity, nli), token_logprobs)
