"""Relevance of single tokens: how much an answer changes in meaning without them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from qualm.runners.contracts.estimators import EstimatorContext, Floats, Rows
from qualm.runners.plugins.estimators._likeness import jaccard, likeness_from_logits


def without_each(text: str, ends: Floats) -> list[str]:
    """Return one text per token: `text` without that token; `ends` are tokens' end offsets.

    >>> without_each("a red cube", np.array([1, 5, 10, 10]))
    [' red cube', 'a cube', 'a red', 'a red cube']
    """
    bounds = [0, *(int(end) for end in ends)]
    return [text[:start] + text[end:] for start, end in pairwise(bounds)]


def relevances(context: EstimatorContext, texts: Sequence[str], ends: Rows, similarity: str, nli: Any) -> Rows:
    """Return per answer the (T,) relevance in [0, 1] of its tokens: 1 - likeness without each.

    Args:
        texts: the answers.
        ends: number of characters of the answer up to the end of each token.
        similarity: see `qualm.runners.plugins.estimators._likeness.likeness`, in both directions.
        nli: the NLI model or encoder that the spec names; not opened for `jaccard`.
    """
    shorter = [without_each(text, own) for text, own in zip(texts, ends, strict=True)]
    pairs = [(text, other) for text, own in zip(texts, shorter, strict=True) for other in own]
    if similarity == "jaccard":
        likenesses = np.array([jaccard(pair)[0, 1] if pair[0] != pair[1] else 1.0 for pair in pairs])
    else:
        logits = context.nli(nli, similarity).logits([pair for a, b in pairs for pair in ((a, b), (b, a))])
        likenesses = likeness_from_logits(logits, similarity).reshape(-1, 2).mean(axis=1)
    starts = np.cumsum([0, *map(len, shorter)])
    return [1.0 - likenesses[start:end] for start, end in pairwise(starts)]


def weighted_surprises(relevance: Rows, logprobs: Rows) -> Floats:
    """Return (n,) relevance-weighted mean surprises in nats; NaN if all weigh 0 or mismatch."""
    values = [
        float(-(own * weights).sum() / weights.sum()) if len(own) == len(weights) and weights.sum() > 0 else np.nan
        for weights, own in zip(relevance, logprobs, strict=True)
    ]
    return np.array(values, dtype=np.float64) + 0.0
