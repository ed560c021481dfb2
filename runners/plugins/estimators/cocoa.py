"""CoCoA (Vashurin et al., NeurIPS 2025)."""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import EstimatorContext, Floats, Rows, Texts, means, sums
from qualm.runners.plugins.estimators._likeness import likeness_to

CITES = ["vashurin2025cocoa"]
NEEDS = {
    "text": "text",
    "draw_texts": "draw_texts",
    "token_logprobs": {"confidence": {"max_sequence_probability": "token_logprobs", "perplexity": "token_logprobs"}},
    "token_entropies": {"confidence": {"mean_token_entropy": "token_entropies"}},
}


def cocoa(
    context: EstimatorContext,
    text: Sequence[str],
    draw_texts: Texts,
    token_logprobs: Rows | None,
    token_entropies: Rows | None,
    *,
    confidence: Literal["max_sequence_probability", "perplexity", "mean_token_entropy"] = "max_sequence_probability",
    similarity: Literal["entailment", "contradiction", "cosine", "jaccard"] = "entailment",
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
) -> Floats:
    """Return each greedy answer's uncertainty times its mean unlikeness to sampled answers.

    U = u * (1/N) sum_i (1 - s(y, y_i)): u is the greedy answer's value, in nats, of the estimator that `confidence` names, s(y, y_i) the
    likeness of the greedy answer y and draw y_i. From 0 up, higher = more uncertain; 0 where every draw is like the greedy answer, however
    improbable that answer is. Undefined for an empty generation. The paper's s is a cross-encoder's score; here it is `similarity`, on
    average over both directions.

    Example: greedy "red" with token probabilities .9, .5, draws "red", "blue", "Red.", "green" give .399254.

    Args:
        confidence: max_sequence_probability (CoCoA-MSP), perplexity in its log form (CoCoA-PPL) or mean_token_entropy (CoCoA-MTE).
        similarity: likeness is the probability of entailment, 1 minus that of contradiction, (1 + cosine of the embeddings) / 2, or shared
            words over all words (Jaccard).
        nli: NLI model for entailment, or an encoder (`embedding`) for cosine; not used with jaccard.
    """
    unlike = [1.0 - s.mean() if len(s) else np.nan for s in likeness_to(context, text, draw_texts, similarity, nli)]
    if token_entropies is not None:
        unsure = means(token_entropies)
    elif token_logprobs is not None and confidence == "perplexity":
        unsure = -means(token_logprobs)
    else:
        total, length = sums(token_logprobs or [])
        unsure = np.where(length > 0, -total, np.nan)
    with np.errstate(invalid="ignore"):
        return np.asarray(unsure * np.array(unlike, dtype=np.float64) + 0.0, dtype=np.float64)
