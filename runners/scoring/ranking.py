"""Sums over groups of equal scores, in order: what every rank-based metric is made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Weights

Floats = NDArray[np.float64]
PLACES = 1000
"""Number of points in the order of answers, for integrals."""


def tie_sums(score: Floats, columns: list[Floats], weights: NDArray[np.float64] | Weights) -> list[Floats]:
    """Return, per column, (B, k) weighted sums for each of k distinct scores, ascending."""
    order = np.argsort(score, kind="stable")
    sorted_score = score[order]
    starts = np.flatnonzero(np.r_[True, sorted_score[1:] != sorted_score[:-1]])
    dense = np.asarray(weights.rows(order)) if isinstance(weights, Weights) else weights[:, order]
    # Without ties reduceat would copy every column for nothing.
    if len(starts) == len(score):
        return [dense * column[order] for column in columns]
    return [np.add.reduceat(dense * column[order], starts, axis=1) for column in columns]


@dataclass(frozen=True)
class RetainedAccuracy:
    """Mean correctness of the k least uncertain answers, for every k and resample.

    With a_k the mean correctness of the k least doubted of n answers: within a tie, a_k = (right_before + mean * (k - before)) / k.
    All are (B, distinct doubts), ascending.
    """

    here: NDArray[np.int64]
    """Answers of each doubt."""
    after: NDArray[np.int64]
    """...of that or less."""
    mean: Floats
    """Their mean correctness, 0 where there is none."""
    right: Floats
    """Its sum over those of each doubt."""
    right_before: Floats
    """...of less doubt."""

    @classmethod
    def compute(cls, doubt: Floats, correct: Floats, weights: NDArray[np.float64] | Weights, metric: str) -> RetainedAccuracy:
        """Compute the table from (n,) doubts and correctness, per resample of `weights`.

        Raises:
            ValueError: weights that are not counts; the message names `metric`.
        """
        count, right = tie_sums(doubt, [np.ones_like(correct), correct], weights)
        if not (count == np.rint(count)).all():
            raise ValueError(f"{metric}: expected weights that are counts, got fractions")
        here = count.astype(np.int64)
        mean = np.where(here > 0, right / np.maximum(here, 1), 0.0)
        return cls(here, np.cumsum(here, axis=1), mean, right, np.cumsum(right, axis=1) - right)

    @property
    def before(self) -> NDArray[np.int64]:
        return self.after - self.here

    @property
    def total(self) -> NDArray[np.int64]:
        """Return (B,) numbers of answers."""
        return self.after[:, -1]

    def sum_retained_means(self, beyond: NDArray[np.int64] | int = 0) -> Floats:
        """Return (B,) sums, over k from `beyond` + 1 to n, of the k surest answers' accuracy."""
        # The sum of 1/k over a tie, which a_k is linear in, is a difference of two harmonic numbers.
        harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, max(2, self.total.max() + 1)))])
        low = np.maximum(self.before, np.broadcast_to(beyond, len(self.here))[:, None])
        steps = np.maximum(self.after - low, 0)
        inverse = np.where(steps > 0, harmonic[self.after] - harmonic[np.minimum(low, self.after)], 0.0)
        sums: Floats = (self.mean * steps + (self.right_before - self.mean * self.before) * inverse).sum(axis=1)
        return sums

    def mean_of(self, k: NDArray[np.int64]) -> Floats:
        """Return (B,) mean correctness of the `k` least uncertain answers; NaN where k is 0."""
        place = (self.after >= k[:, None]).argmax(axis=1)
        row = np.arange(len(k))
        right = self.right_before[row, place] + self.mean[row, place] * (k - self.before[row, place])
        return np.where(k > 0, right / np.maximum(k, 1), np.nan)


def auroc_error(score: Floats, ones: int, others: int, value: float) -> float:
    """Return the standard error of AUROC `value` of `ones` and `others` rows; 0 at 0 or 1.

    Hanley, McNeil, 1982: (A (1 - A) + (n1 + n0 - 2) (Q - A^2)) / (n1 n0), where Q, the chance that one row of a class lies on the right
    side of two of the other, is that of two normal variables with correlation 1/2 (Owen, 1956). Ties take off as of the variance of
    Mann and Whitney's statistic.

    >>> round(auroc_error(np.arange(100.0), 50, 50, 0.5), 4)
    0.058
    """
    from scipy.special import ndtri, owens_t

    if not 0 < value < 1:
        return 0.0
    both = value - 2 * owens_t(ndtri(value), math.sqrt(1 / 3))
    tied, n = np.unique(score, return_counts=True)[1].astype(np.float64), len(score)
    # The correction for ties of Mann and Whitney's variance.
    distinct = 1 - float((tied**3 - tied).sum()) / (n**3 - n)
    variance = (value * (1 - value) + (ones + others - 2) * (both - value**2)) / (ones * others)
    return math.sqrt(max(0.0, variance * distinct))


def aurc_error(correct: Floats, value: float) -> float:
    """Return the standard error of an AURC of independent answers, by its value.

    Each wrong answer adds -ln(share of answers at most as doubted) / n. See `_error_of_rarer`.
    """
    wrong = 1 - float(correct.mean())
    value, share = (value, wrong) if wrong <= 0.5 else (1 - value, 1 - wrong)
    return _error_of_rarer(lambda place: -np.log(place), share, value / share if share else 0.0, len(correct))


def e_aurc_error(correct: Floats, value: float) -> float:
    """Return a lower limit of the standard error of an E-AURC, by its value.

    A perfect ranking has an excess of 0 in every sample, so the error vanishes with the value. It is the smaller of two: the error of an
    AURC as small as the excess, which is too large beside random rankings; and that of the AURC less what the share of the rarer answers
    does to a perfect ranking's, which does not vanish.
    """
    right = float(correct.mean())
    share = min(right, 1 - right)
    if not share:
        return 0.0
    perfect = 1 - math.log(share) if right < 0.5 else (share + right * math.log(right)) / share
    mean = perfect - value / share if right < 0.5 else perfect + value / share
    own = math.log(share if right < 0.5 else right)
    n = len(correct)
    as_small = _error_of_rarer(lambda place: -np.log(place), share, value / share, n)
    return min(as_small, _error_of_rarer(lambda place: own - np.log(place), share, mean, n))


def augrc_error(correct: Floats, value: float) -> float:
    """Return the standard error of an AUGRC of independent answers, by its value.

    Each wrong answer adds (share of answers at least as doubted) / n. See `_error_of_rarer`.
    """
    wrong = 1 - float(correct.mean())
    value, share = (value, wrong) if wrong <= 0.5 else (0.5 - value, 1 - wrong)
    ratio = min(value / share, 1 - 1e-9) if share else 0.0
    return _error_of_rarer(lambda place: 1 - place, share, ratio / (1 - ratio), len(correct))


def _error_of_rarer(weight: Callable[[Floats], Floats], share: float, mean: float, n: int) -> float:
    """Return the standard error of the sum of `weight(place)` over a class, divided by n.

    `share` of the n answers are of the class; `mean` is the mean -ln(place) of these.

    At place t from 0 to 1 an answer is of the rarer class with chance share / mean t^(1 / mean - 1), at most 1: Lehmann's alternatives
    (1953), of which -ln(t) is exponential with this mean.
    """
    if share <= 0 or mean <= 0:
        return 0.0
    place = (np.arange(PLACES) + 0.5) / PLACES
    chance = np.minimum(1.0, share / mean * place ** (1 / mean - 1))
    return math.sqrt(float((weight(place) ** 2 * chance * (1 - chance)).mean()) / n)
