"""Inductive Venn-Abers predictors (Vovk, Petej, UAI 2014).

The fast form is by Vovk, Petej, Fedorova, "Large-scale probabilistic predictors with and without guarantees of validity", NIPS 2015.
"""

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Floats, Weights

CITES = ["vovk2014venn", "vovk2015large"]
ALSO_KNOWN_AS = ["venn_abers_predictor", "ivap"]


def venn_abers(score: Floats, right: Floats, weights: Weights, at: Floats) -> Floats:
    """Return (B, m) P(right) at `at`: merged isotonic fits with the answer wrong and right.

    p0 and p1 are the two fits at the answer's score. If answers are exchangeable, the one that was fitted with the true outcome is
    calibrated, however few answers calibrate; where they are few, p0 and p1 lie far apart, which shows how little is known. The merged
    value, p1 / (1 - p0 + p1), has the least log-loss in the worse case; it is never 0 or 1. Undefined where no answer calibrates. O((n + m)
    log n) for each resample. Of multiple choice it is one against the rest, and then no interval is kept.
    """
    p0, p1 = interval(score, right, weights, at)
    merged: Floats = p1 / (1 - p0 + p1)
    return merged


def interval(score: Floats, right: Floats, weights: Weights, at: Floats) -> Floats:
    """Return (2, B, m) P(right) at `at`, fitted with the answer wrong, right; NaN if no rows."""
    values, inverse = np.unique(score, return_inverse=True)
    place = inverse.astype(np.int64)
    drawn = np.asarray(weights, dtype=np.float64)
    count, n_right = (_sum_by_score(drawn * of, place, len(values)) for of in (1.0, right))
    if_right = _fits_if_right(count, n_right)
    if_wrong = 1 - _fits_if_right(count[:, ::-1], (count - n_right)[:, ::-1])[:, ::-1]
    both = np.stack([if_wrong[:, np.searchsorted(values, at, side="right")], if_right[:, np.searchsorted(values, at, side="left")]])
    both[:, count.sum(axis=1) == 0] = np.nan
    clipped: Floats = np.clip(both, 0.0, 1.0)
    return clipped


def _sum_by_score(drawn: Floats, score_index: NDArray[np.int64], n_scores: int) -> Floats:
    """Return (B, n_scores) sums of `drawn` (B, rows) weights per score; `score_index` (rows,)."""
    return np.stack([np.bincount(score_index, of, n_scores) for of in drawn])


def _fits_if_right(n_answers: Floats, n_right: Floats) -> Floats:
    """Return (B, k + 1) fitted P(right) of one more right answer, put below each of k values.

    The last column, above all values, is 1.

    Points are cumulative counts of answers and of right ones from the lowest score on; slopes of their greatest convex minorant are the
    regression. The new answer adds the vector (1, 1). It begins before all values and swaps places with one after the other; only the
    part of the minorant from the new answer on is kept, on a stack whose top is `top`. Each point enters and leaves it once.
    """
    times, k = n_answers.shape
    x, y = (np.concatenate([np.full((times, 1), -1.0), np.zeros((times, 1)), np.cumsum(of, axis=1)], axis=1) for of in (n_answers, n_right))
    stack_x, stack_y = np.zeros_like(x), np.zeros_like(y)
    rows = np.arange(times)
    size = np.zeros(times, dtype=np.int64)
    for i in range(k + 2):  # a minorant of all points, from the left
        while True:
            a, b = size - 2, size - 1
            turn = _left_turn((stack_x[rows, a], stack_y[rows, a]), (stack_x[rows, b], stack_y[rows, b]), (x[:, i], y[:, i]))
            drop = (size > 1) & (turn <= 0)
            if not drop.any():
                break
            size[drop] -= 1
        stack_x[rows, size], stack_y[rows, size] = x[:, i], y[:, i]
        size += 1
    top, last = np.zeros(times, dtype=np.int64), size - 1
    slopes = np.ones((times, k + 1))
    before_x, before_y = x[:, 0].copy(), y[:, 0].copy()
    for i in range(k):
        top_x, top_y, next_x, next_y = stack_x[rows, top], stack_y[rows, top], stack_x[rows, top + 1], stack_y[rows, top + 1]
        slopes[:, i] = (next_y - top_y) / (next_x - top_x)
        before_x, before_y = before_x + n_answers[:, i], before_y + n_right[:, i]
        below = _left_turn((top_x, top_y), (next_x, next_y), (before_x, before_y)) < 0
        if not below.any():
            continue
        top[below] += 1
        while True:
            after = np.minimum(top + 1, last)
            turn = _left_turn((before_x, before_y), (stack_x[rows, top], stack_y[rows, top]), (stack_x[rows, after], stack_y[rows, after]))
            drop = below & (top < last) & (turn <= 0)
            if not drop.any():
                break
            top[drop] += 1
        top[below] -= 1
        stack_x[rows[below], top[below]], stack_y[rows[below], top[below]] = before_x[below], before_y[below]
    return slopes


Point = tuple[Floats, Floats]


def _left_turn(a: Point, b: Point, c: Point) -> Floats:
    """Return (B,) > 0 where the path from a over b to c turns left, < 0 where right."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
