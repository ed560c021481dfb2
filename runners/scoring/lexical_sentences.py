"""Sentences that estimators compare by words alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qualm.runners.scoring.answer_text import words_of

SENTENCE_WORDS = 5
"""Words, without articles, from which the median answer counts as a sentence: `lexical` knows no paraphrases."""


def lexical_sentences(texts: Sequence[str], estimators: Sequence[str]) -> str:
    """Return a warning if estimators compare words alone and answers are sentences, or "".

    Args:
        texts: one model's greedy answers to open questions.
        estimators: labels of those with `nli: lexical` that have values.
    """
    lengths = [len(words) for text in texts if (words := words_of(text))]
    if not estimators or not lengths or np.median(lengths) < SENTENCE_WORDS:
        return ""
    return (
        f"{', '.join(estimators)}: compared by words alone (`nli: lexical`, the default), though the median answer has "
        f"{np.median(lengths):g} words; paraphrases then count as different meanings. Choose `nli: {{hf: {{hub: MODEL}}}}`, an NLI model"
    )
