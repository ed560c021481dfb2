"""Semantic density (Qiu and Miikkulainen, NeurIPS 2024), as LM-Polygraph computes it."""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import Draws, EstimatorContext, Floats, Rows, Texts, means
from qualm.runners.inference.nli import CONTRADICTION, NEUTRAL, probabilities

CITES = ["qiu2024semantic"]
NEEDS = {
    "text": "text",
    "token_logprobs": "token_logprobs",
    "draw_texts": "draw_texts",
    "draw_logprobs": "draw_logprobs",
    "question": {"compared": {"with_question": "question"}},
}


def semantic_density(
    context: EstimatorContext,
    text: Sequence[str],
    token_logprobs: Rows,
    draw_texts: Texts,
    draw_logprobs: Draws,
    question: Sequence[str] | None,
    *,
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
    compared: Literal["answers", "with_question"] = "answers",
) -> Floats:
    """Return 1 minus the share of sampled probability near in meaning to each greedy answer.

    U = 1 - sum_i p_i k_i / sum_i p_i over the different sampled answers and the greedy one itself, with p = exp of the mean
    log-probability of a token and k = max(0, 1 - d), d = P(contradiction) + P(neutral) / 2 of the sampled answer after the greedy one, the
    paper's squared distance; k of the greedy answer is 1. In [0, 1), higher = more uncertain. Undefined where an answer has no tokens.
    An answer that was drawn twice counts once, by its first draw.

    Example: greedy "red" of probability .8, draws "red" (.8), "blue" (.2), "red" (.8) give .111111.

    Args:
        nli: NLI model for entailment.
        compared: the answers alone, or each behind the sample's question, as the paper compares them.
    """
    before = [f"{q} " if q.strip() else "" for q in question] if question is not None else [""] * len(text)
    different = [list({t: i for i, t in reversed(list(enumerate(own)))}.items()) for own in draw_texts]
    pairs = [(lead + answer, lead + t) for lead, answer, own in zip(before, text, different, strict=True) for t, _ in own]
    chances = probabilities(context.nli(nli).logits(pairs)) if pairs else np.empty((0, 3))
    near = np.maximum(0.0, 1.0 - chances[:, CONTRADICTION] - chances[:, NEUTRAL] / 2)
    values, start = [], 0
    for answer, own, logprobs in zip(np.exp(means(token_logprobs)), different, draw_logprobs, strict=True):
        p = np.array([answer, *np.exp(means([logprobs[i] for _, i in own]))])
        values.append(1.0 - p @ [1.0, *near[start : start + len(own)]] / p.sum() if own else np.nan)
        start += len(own)
    return np.array(values, dtype=np.float64)
