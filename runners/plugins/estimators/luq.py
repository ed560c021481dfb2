"""LUQ: Caiqi Zhang, Fangyu Liu, Marco Basaldella, Nigel Collier, "LUQ: Long-text Uncertainty Quantification for LLMs", EMNLP 2024."""

import re
from typing import Annotated, Literal

import numpy as np

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import EstimatorContext, Floats, Texts
from qualm.runners.inference.nli import CONTRADICTION, ENTAILMENT

CITES = ["zhang2024luq"]
NEEDS = ["draw_texts"]


def luq(
    context: EstimatorContext,
    draw_texts: Texts,
    *,
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
    units: Literal["sentences", "whole"] = "sentences",
) -> Floats:
    """Return 1 minus the mean support of each question's sampled answers by one another.

    s(sentence | y') = exp(e) / (exp(e) + exp(c)) from the logits of entailment and contradiction with the other answer y' as premise,
    neutral left out; S(m, m') is its mean over the sentences of answer m, C(m) the mean of S over the other answers, and
    U = 1 - mean_m C(m), in [0, 1], higher = more uncertain. An answer without a sentence (an empty text) is dropped; undefined where fewer
    than two are left. In UQB's formula the sum runs to M while another number divides it; here both are the number of answers kept.

    Example: entailment logits (3, 2, -1), (2, 3, -1.5), (-1, -2, 3), contradiction their negatives: .622026.

    Args:
        nli: NLI model for entailment.
        units: `sentences`, split after . ! ? and their like before white space (always after those of Chinese and Japanese); or the answer
            as a `whole`, as in LM-Polygraph's code.
    """
    parts = [[pieces for text in texts if (pieces := sentences(text) if units == "sentences" else [text.strip()] * bool(text.strip()))]
             for texts in draw_texts]  # fmt: skip
    wholes = [[text.strip() for text in texts if text.strip()] for texts in draw_texts]
    pairs = [
        (other, sentence) for own, whole in zip(parts, wholes, strict=True) for m, statements in enumerate(own)
        for sentence in statements for n, other in enumerate(whole) if m != n
    ]  # fmt: skip
    logits = context.nli(nli).logits(pairs)
    supported = 1.0 / (1.0 + np.exp(logits[:, CONTRADICTION] - logits[:, ENTAILMENT]))
    values, start = [], 0
    for own in parts:
        others = len(own) - 1
        count = sum(map(len, own)) * max(others, 0)
        values.append(_unsupported_share(supported[start : start + count], [len(statements) for statements in own], others))
        start += count
    return np.array(values, dtype=np.float64)


def _unsupported_share(supported: Floats, lengths: list[int], others: int) -> float:
    if others < 1:
        return float("nan")
    per_sentence = supported.reshape(-1, others).mean(axis=1)
    per_answer = [part.mean() for part in np.split(per_sentence, np.cumsum(lengths)[:-1])]
    return float(1.0 - np.mean(per_answer))


_STOP, _CLOSING = "[.!?…‽؟।]", "[\"'”’)\\]]"
_WIDE_STOP, _WIDE_CLOSING = "[。！？]", "[」』”’）]"
_END = re.compile(
    rf"(?:(?<={_STOP})|(?<={_STOP}{_CLOSING}))\s+|(?:(?<={_WIDE_STOP})(?!{_WIDE_CLOSING})|(?<={_WIDE_STOP}{_WIDE_CLOSING}))\s*"
)


def sentences(text: str) -> list[str]:
    """Split a text into sentences, none of them blank.

    >>> sentences("A car. It is 2.5 m long!  Red?"), sentences("红色。是的！")
    (['A car.', 'It is 2.5 m long!', 'Red?'], ['红色。', '是的！'])
    """
    return [part.strip() for part in _END.split(text) if part.strip()]
