"""Greedy clusters of sampled answers that entail each other, as for semantic entropy (Kuhn et al., ICLR 2023)."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.estimators import Texts
from qualm.runners.contracts.nli import Pair
from qualm.runners.inference.nli import CONTRADICTION, ENTAILMENT, CachedNli

Ints = NDArray[np.int64]


def clusters(nli: CachedNli, texts: Texts, questions: Sequence[str] | None = None, same: str = "entailment") -> list[Ints]:
    """Return for each sample the (N,) cluster number of every answer, by first appearance.

    An answer joins the first cluster whose first member means the same; so the order matters, as in all published code. All samples
    advance together: in every round each compares its first text without a cluster with the texts after it. That compares only the pairs
    that the definition needs, in as many batches as there are clusters.

    Args:
        nli: its likeliest class counts.
        texts: the sampled answers of each sample.
        questions: put before both texts of a pair, as Kuhn's code does; None leaves them as they are.
        same: `entailment`: each follows from the other. `no_contradiction`: neither contradicts the other, as in UQ-NLG.
    """
    before = [f"{q} " if q and q.strip() else "" for q in questions] if questions is not None else [""] * len(texts)

    def in_context(sample: int, text: str) -> str:
        return before[sample] + text if text.strip() else text  # an empty answer is one with its question too

    def agree(pairs: list[Pair]) -> NDArray[np.bool_]:
        likeliest = nli.logits(pairs).argmax(axis=1)
        return np.asarray(likeliest == ENTAILMENT if same == "entailment" else likeliest != CONTRADICTION)

    waiting = [list(dict.fromkeys(t)) for t in texts]
    number: list[dict[str, int]] = [{} for _ in texts]
    round_ = 0
    while any(waiting):
        comparisons = [(s, w[0], other) for s, w in enumerate(waiting) if w for other in w[1:]]
        alike = _agree_both_ways(agree, [(in_context(s, head), in_context(s, other)) for s, head, other in comparisons])
        for s, w in enumerate(waiting):
            if w:
                number[s][w[0]] = round_
        for (s, _, other), yes in zip(comparisons, alike, strict=True):
            if yes:
                number[s][other] = round_
        waiting = [[text for text in w if text not in number[s]] for s, w in enumerate(waiting)]
        round_ += 1
    return [np.array([number[s][text] for text in t], dtype=np.int64) for s, t in enumerate(texts)]


def _agree_both_ways(agree: Callable[[list[Pair]], NDArray[np.bool_]], pairs: list[Pair]) -> NDArray[np.bool_]:
    """Return a mask of pairs that agree both ways; the second way is asked only after a yes."""
    agreements = agree(pairs) if pairs else np.zeros(0, dtype=bool)
    back = np.flatnonzero(agreements)
    if len(back):
        agreements[back] = agree([(pairs[i][1], pairs[i][0]) for i in back])
    return agreements
