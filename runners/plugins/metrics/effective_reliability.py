"""Effective reliability. Reliable VQA: Whitehead, Petryk, Shakib, Gonzalez, Darrell, Rohrbach, Rohrbach, 2022 (ECCV)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.ranking import tie_sums

CITES = ["whitehead2022reliable"]
HIGHER_IS_BETTER = True
INTERVAL = "t"
ORDINAL = ["confidence"]


def effective_reliability(
    confidence: Floats,
    correct: Floats,
    pred_is_idk: Floats,
    fold: Floats,
    weights: Weights,
    *,
    cost: Annotated[float, Ge(0)] = 1.0,
    threshold: Literal["other_half", "same", "none"] = "other_half",
) -> Floats:
    """Correctness of the answers given, minus a cost for every wrong one; abstaining earns and costs nothing.

    mean(phi), phi = correct if answered and correct > 0; -cost if answered and correct = 0; 0 if abstained. At most 1,
    higher is better. A question is abstained from if its confidence is below a threshold, or if the answer declines in
    words: a refusal neither earns nor costs anything, even where it is right. The threshold is the confidence, among those
    seen, with the largest sum of phi; of equals the lowest, which answers most. Answering nothing at all is not a candidate. Undefined
    without rows to choose on or to measure.

    Args:
        cost: Of a wrong answer; the paper reports 1, 10 and 100 (a list is a sweep).
        threshold: Where it is chosen. `other_half`: for each half of the groups on the other half, so that all rows count
            and none chooses for itself. `same`: on the rows themselves, which is optimistic. `none`: only refusals in
            words abstain, for models that decline by themselves or by an abstention of the spec.
    """
    worth = np.where(correct > 0, correct, -cost) * (1 - pred_is_idk)
    if threshold == "none" or not len(correct):
        return ratio(weights @ worth, weights @ np.ones_like(worth))
    halves = [np.ones_like(fold)] if threshold == "same" else [1 - fold, fold]
    sums = tie_sums(-confidence, [column * half for half in halves for column in (np.ones_like(worth), worth)], weights)
    counts, worths = sums[::2], [np.cumsum(s, axis=1) for s in sums[1::2]]
    chosen = [_last_best(worth_of, count) for worth_of, count in zip(worths, counts, strict=True)]
    each = np.arange(len(counts[0]))
    gained = sum(worths[k][each, chosen[len(halves) - 1 - k]] for k in range(len(halves)))
    defined = np.all([count.sum(axis=1) > 0 for count in counts], axis=0)
    return np.where(defined, ratio(np.asarray(gained), sum(count.sum(axis=1) for count in counts)), np.nan)


def _last_best(worth: Floats, count: Floats) -> NDArray[np.int64]:
    """Of the cuts at a confidence that occurs, the last with the largest sum, up to rounding."""
    offered = np.where(count > 0, worth, -np.inf)
    best = offered >= offered.max(axis=1, keepdims=True) - 1e-9
    from_the_end: NDArray[np.int64] = best[:, ::-1].argmax(axis=1)
    last: NDArray[np.int64] = best.shape[1] - 1 - from_the_end
    return last


def bounds(*, cost: float = 1.0) -> tuple[float, float]:
    """From all answered and wrong to all answered and right."""
    return -cost, 1.0
