"""Lexical similarity of the sampled answers: Fomicheva et al., "Unsupervised Quality Estimation for Neural Machine Translation", 2020."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any, Literal

import numpy as np

from qualm.runners.contracts.estimators import Floats, Texts

CITES = ["fomicheva2020unsupervised", "lin2004rouge"]
NEEDS = ["draw_texts"]


def lexical_similarity(
    draw_texts: Texts, *, metric: Literal["rougeL", "rouge1", "rouge2"] = "rougeL", words: Literal["latin", "unicode"] = "latin"
) -> Floats:
    """Return minus each question's mean ROUGE F1 over pairs of sampled answers, in [-1, 0].

    U = -mean over pairs i < j of ROUGE F1, in [-1, 0], higher = more uncertain, as LM-Polygraph has it: the package rouge-score with
    its stemmer, so "cats" is "cat" and "Yes." is "yes". ROUGE-2 of one-word answers is 0 even where they are equal.

    Undefined with fewer than two draws, and where a draw that says something has no word left (with `latin`, which keeps a-z and 0-9
    alone, a Chinese answer), which LM-Polygraph counts as unlike everything, itself included. Two empty draws count as equal (1), an empty
    one and one that says something as unlike (0).

    Example: "a red car", "a red truck", "blue car", "a red car" give -.522222.

    Args:
        metric: longest common subsequence (ROUGE-L), single words, or pairs of words.
        words: `latin`: the tokens of rouge-score. `unicode`: words of any script; those written without spaces, by character.
    """
    from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

    tokens = _Tokens(words)
    scorer = RougeScorer([metric], tokenizer=tokens)

    @cache
    def alike(first: str, second: str) -> float:
        if not first.strip() or not second.strip():
            return float(first.strip() == second.strip())
        return float(scorer.score(first, second)[metric].fmeasure)

    return np.array([_mean(texts, tokens, alike) for texts in draw_texts], dtype=np.float64)


def _mean(texts: list[str], tokens: _Tokens, alike: Any) -> float:
    if len(texts) < 2 or any(text.strip() and not tokens.tokenize(text) for text in texts):
        return float("nan")
    return -float(np.mean([alike(*sorted(pair)) for pair in combinations(texts, 2)])) + 0.0


class _Tokens:
    """rouge-score's tokeniser, or words of any script, with a cache."""

    def __init__(self, words: str) -> None:
        from rouge_score.tokenizers import DefaultTokenizer  # type: ignore[import-untyped]

        from qualm.runners.scoring.answer_text import words_of

        split = DefaultTokenizer(use_stemmer=True).tokenize if words == "latin" else words_of
        self.tokenize = cache(split)
