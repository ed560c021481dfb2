"""Effective reliability. Reliable VQA: Whitehead, Petryk, Shakib, Gonzalez, Darrell, Rohrbach, Rohrbach, 2022 (ECCV)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.measuring.bounded_means import mean_loss_interval
from qualm.runners.scoring.ranking import tie_sums

CITES = ["whitehead2022reliable"]
META = MetricMeta(higher_is_better=True, interval="own")


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
    """Mean gain of a question: correctness if answered, -`cost` if wrong, 0 if abstained.

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
    counts, worths, chosen = _sums_and_cuts(confidence, worth, fold, threshold, weights)
    each, halves = np.arange(len(counts[0])), len(counts)
    gained = sum(worths[k][each, chosen[halves - 1 - k]] for k in range(halves))
    defined = np.all([count.sum(axis=1) > 0 for count in counts], axis=0)
    return np.where(defined, ratio(np.asarray(gained), sum(count.sum(axis=1) for count in counts)), np.nan)


def interval(
    confidence: Floats,
    correct: Floats,
    pred_is_idk: Floats,
    fold: Floats,
    group: NDArray[np.int64],
    level: float,
    *,
    cost: float = 1.0,
    threshold: str = "other_half",
) -> tuple[float, float]:
    """Return the (low, high) interval of mean gains at the sample's thresholds, by formula."""
    answered = pred_is_idk == 0
    if threshold != "none":
        worth = np.where(correct > 0, correct, -cost) * (1 - pred_is_idk)
        _, _, chosen = _sums_and_cuts(confidence, worth, fold, threshold, np.ones((1, len(correct))))
        least = -np.unique(-confidence)[np.concatenate(chosen)]
        # Rows of the first half are answered by the threshold of the second.
        answered &= confidence >= (least[0] if threshold == "same" else np.where(fold == 0, least[1], least[0]))
    worth = np.where(correct > 0, correct, -cost)
    return mean_loss_interval(worth * answered, -cost * answered, 1.0 * answered, group, level)


def _sums_and_cuts(
    confidence: Floats, worth: Floats, fold: Floats, threshold: str, weights: Weights
) -> tuple[list[Floats], list[Floats], list[NDArray[np.int64]]]:
    """Return row counts, cumulated worths and best cuts: three lists with an entry per half.

    Counts and worths are (B, cuts), with a cut at each distinct confidence, the highest first; best cuts are (B,) indices. If `threshold`
    is "same", the lists have one entry, for all rows.
    """
    halves = [np.ones_like(fold)] if threshold == "same" else [1 - fold, fold]
    sums = tie_sums(-confidence, [column * half for half in halves for column in (np.ones_like(worth), worth)], weights)
    counts, worths = sums[::2], [np.cumsum(s, axis=1) for s in sums[1::2]]
    return counts, worths, [_last_best_cut(of, count) for of, count in zip(worths, counts, strict=True)]


def _last_best_cut(summed_worths: Floats, n_rows: Floats) -> NDArray[np.int64]:
    """Return (B,) the index of the last non-empty cut with the largest worth, up to rounding."""
    offered = np.where(n_rows > 0, summed_worths, -np.inf)
    best = offered >= offered.max(axis=1, keepdims=True) - 1e-9
    from_the_end: NDArray[np.int64] = best[:, ::-1].argmax(axis=1)
    last: NDArray[np.int64] = best.shape[1] - 1 - from_the_end
    return last


def bounds(*, cost: float = 1.0) -> tuple[float, float]:
    """Return the lowest and highest possible value: -cost (all wrong) and 1 (all right)."""
    return -cost, 1.0
