"""Conformal sets over draws of the calibration rows: what is claimed of a model and method, and not of one threshold.

A threshold is an order statistic of few scores and differs from draw to draw; a resample of the test rows alone holds it fixed, and its
interval answers another question: what these very sets would do on more test rows. Here each resample draws the calibration groups too,
takes its own threshold from them and applies it (Efron, Tibshirani, 1993, chapter 8: resample all that was sampled).

With n calibration rows that are exchangeable with the test rows, coverage given the threshold is Beta(k, n + 1 - k) distributed (Vovk,
2012), so that the number of covered test rows is Beta-binomial: the band in which coverage is to be expected. Rows of one group count
as fewer: both numbers are divided by the design effect of being covered (Kish, 1965).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Floats, Weights
from qualm.runners.data.aligned import Samples
from qualm.runners.data.calibration_split import Precision
from qualm.runners.scoring.bootstrap import Resamples
from qualm.runners.scoring.conformal.parts import QuestionParts, parts_of
from qualm.runners.scoring.conformal.scores import option_scores
from qualm.runners.scoring.conformal.sets import SLACK, order_statistic, threshold
from qualm.runners.store.newest import Newest

LEVEL = 0.95
"""Of the band."""
NODES = 24
"""Thresholds at which sets are computed; where resamples have more different ones, the nearest of so many equally likely ones stand in."""
WINDOW = 96
AT_ONCE, CHUNK = 64_000_000, 64
"""Rows of resamples whose sets by parts are kept for the next slice, and resamples whose sets are made at once."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Prediction sets at ascending thresholds: all rows' at the lowest, and each change of a row's set."""

    limits: Floats
    which: NDArray[np.int64]
    """(B,): which of them is each resample's."""
    lowest: dict[str, Floats]
    """(n,): the columns `covered` and `set_size` at the lowest."""
    rows: NDArray[np.int64]
    at: NDArray[np.int64]
    """(m,): the row that changes, and at which threshold, in the order of thresholds."""
    before: dict[str, Floats]
    after: dict[str, Floats]
    """(m,): the columns of that row below the threshold, and from it on."""


@dataclass(eq=False)
class Redraw:
    """One setting and score of one cell, ready to be calibrated anew. Rows of a second model lie behind those of the first."""

    own: Floats
    """(n,): score of the right option of each row that calibrates, on clean inputs; NaN elsewhere."""
    enters: Floats
    """(n, K): the least threshold at which each option is in the row's set, -inf where it always is; +inf where there is no option."""
    truth: NDArray[np.int64]
    alpha: float
    quantile: str
    slack: float
    clean: bool = True
    """Whether these are the inputs that it was calibrated on."""
    kept: tuple[float, ...] = ()
    """Thresholds of the sample itself, which nothing stands in for."""
    parts: QuestionParts | None = None
    """Where each part of the questions has a threshold of its own."""
    lacking: str = ""
    """Which of them have none."""
    _last: Newest[Floats] = field(default_factory=Newest, init=False, repr=False)
    _each: Newest[list[dict[str, NDArray[np.int8]]]] = field(default_factory=Newest, init=False, repr=False)
    _steps: Newest[Steps] = field(default_factory=Newest, init=False, repr=False)
    _calibrating: Newest[int] = field(default_factory=Newest, init=False, repr=False)

    def thresholds(self, resamples: Resamples) -> Floats:
        """(B,) the threshold in each resample; +inf where it has too few calibration rows. (B, P) with parts, of each."""
        return self._last.of(resamples, lambda: self._drawn_limits(resamples))

    def _drawn_limits(self, resamples: Resamples) -> Floats:
        if self.parts is None:
            return self._thresholds(resamples, ~np.isnan(self.own))
        each = [self._thresholds(resamples, ~np.isnan(self.own) & (self.parts.of_row == p)) for p in range(len(self.parts.names))]
        return np.stack(each, axis=1)

    def _thresholds(self, resamples: Resamples, calibrates: NDArray[np.bool_]) -> Floats:
        rows = np.flatnonzero(calibrates)
        # Sorted once: every resample takes its order statistic from the same order, only the weights differ.
        order = rows[np.argsort(self.own[rows], kind="stable")]
        drawn_limits = [weighted_threshold(self.own[order], block.rows(order), self.alpha, self.quantile) for block in resamples.blocks()]
        return np.concatenate([*drawn_limits, np.empty(0)])

    def each(self, resamples: Resamples) -> Iterator[dict[str, NDArray[np.int8]]]:
        """With parts, of every resample at its own thresholds: the columns `covered` and `set_size`, (b, n), some resamples at a time."""
        if resamples.times * len(self.truth) > AT_ONCE:
            return self._chunks(resamples)
        return iter(self._each.of(resamples, lambda: list(self._chunks(resamples))))

    def _chunks(self, resamples: Resamples) -> Iterator[dict[str, NDArray[np.int8]]]:
        assert self.parts is not None
        of_truth = np.arange(len(self.truth)), np.maximum(self.truth, 0)
        # Not infinite: options that do not exist enter at +inf, and must stay outside.
        limits = np.minimum(self.thresholds(resamples) + self.slack, np.finfo(np.float64).max)
        # A last column for part -1: what has no part of its own lets every option in, and every option's -1 finds it.
        limits = np.column_stack([limits, np.full(len(limits), np.finfo(np.float64).max)])
        for start in range(0, len(limits), CHUNK):
            bounds = limits[start : start + CHUNK]
            covered, size = (np.empty((len(bounds), len(self.truth)), dtype=np.int8) for _ in range(2))
            for b, bound in enumerate(bounds):
                inside = self.enters <= bound[self.parts.of_option]
                covered[b], size[b] = inside[of_truth], inside.sum(axis=1, dtype=np.int8)
            yield {"covered": covered, "set_size": size}

    def sets(self, rows: NDArray[np.int64], limit: float) -> dict[str, Floats]:
        """The columns `covered` and `set_size` of some rows at a threshold."""
        inside = self.enters[rows] <= min(limit + self.slack, np.finfo(np.float64).max)  # +inf is no option
        covered = inside[np.arange(len(rows)), np.maximum(self.truth[rows], 0)]
        return {"covered": covered.astype(np.float64), "set_size": inside.sum(axis=1).astype(np.float64)}

    def steps(self, resamples: Resamples) -> Steps:
        """The sets of all rows at the thresholds that the resamples have, from the lowest up."""
        return self._steps.of(resamples, lambda: self._steps_at(*nodes(self.thresholds(resamples), self.kept)))

    def _steps_at(self, limits: Floats, which: NDArray[np.int64]) -> Steps:
        bounds = np.minimum(limits + self.slack, np.finfo(np.float64).max)  # +inf is no option
        enters = np.searchsorted(bounds, self.enters)  # at which threshold an option enters
        of_truth = enters[np.arange(len(enters)), np.maximum(self.truth, 0)]
        later = (enters > 0) & (enters < len(bounds))
        # Threshold first, row second: sorted, the changes stand in the order of thresholds, each pair once.
        places = np.unique(enters[later] * len(enters) + np.nonzero(later)[0])
        at, rows = np.divmod(places, len(enters))
        lowest, before, after = (
            {"covered": (truth <= to).astype(np.float64), "set_size": (of <= column).sum(axis=1).astype(np.float64)}
            for of, truth, to, column in (
                (enters, of_truth, 0, 0),
                (enters[rows], of_truth[rows], at - 1, at[:, None] - 1),
                (enters[rows], of_truth[rows], at, at[:, None]),
            )
        )
        return Steps(limits, which, lowest, rows, at, before, after)

    def calibrating(self, resamples: Resamples) -> int:
        """How many groups of all rows calibrate."""
        return self._calibrating.of(resamples, lambda: len(np.unique(resamples.groups_of(np.flatnonzero(~np.isnan(self.own))))))

    @cached_property
    def never_empty(self) -> Floats:
        """(n,) 1 where a row's set has an option at every threshold."""
        return np.asarray(np.isneginf(self.enters).any(axis=1), dtype=np.float64)

    def band(self, rows: NDArray[np.int64], effect: float) -> Band:
        """Where coverage of these test rows is to be expected."""
        calibrates = ~np.isnan(self.own)
        if self.parts is None:
            return band(self.alpha, self.quantile, [(int(calibrates.sum()), len(rows))], effect, self.clean)
        sizes = [
            (int((calibrates & (self.parts.of_row == p)).sum()), int((self.parts.of_row[rows] == p).sum()))
            for p in range(len(self.parts.names))
        ]
        return band(self.alpha, self.quantile, [of for of in sizes if of[1]], effect, self.clean, self.parts.words)

    def taken(self, rows: NDArray[np.int64]) -> Redraw:
        """The same of some rows; those that calibrate and are not among them calibrate no more."""
        parts = None if self.parts is None else self.parts.taken(rows)
        own, enters, truth = self.own[rows], self.enters[rows], self.truth[rows]
        return Redraw(own, enters, truth, self.alpha, self.quantile, self.slack, self.clean, self.kept, parts, self.lacking)

    def beside(self, other: Redraw) -> Redraw:
        """This model's rows, then another's."""
        width = max(self.enters.shape[1], other.enters.shape[1])
        wide = [np.pad(r.enters, ((0, 0), (0, width - r.enters.shape[1])), constant_values=np.inf) for r in (self, other)]
        own, truth = np.concatenate([self.own, other.own]), np.concatenate([self.truth, other.truth])
        parts = None if self.parts is None or other.parts is None else self.parts.beside(other.parts)
        same = (self.alpha, self.quantile, self.slack, self.clean, self.kept + other.kept, parts, self.lacking or other.lacking)
        return Redraw(own, np.concatenate(wide), truth, *same)


def redraw(
    setting: Mapping[str, Any],
    ref: Mapping[str, Any],
    clean: Floats,
    probs: Floats,
    truth: NDArray[np.int64],
    calibrates: Floats,
    samples: Samples | None = None,
) -> Redraw:
    """What the stage `calibrate` computed, kept so that it can be done again with other calibration rows.

    Args:
        setting: of the stage's parameters.
        ref: one of its scores.
        clean: (n, K) probabilities on clean inputs.
        probs: on those of the cell.
        truth: (n,) place of the right option, -1 where there is none.
        calibrates: (n,) 1 where a row calibrates.
        samples: whose rows these are, of which a randomised score reads a number each: the same in every draw.
    """

    def scored(p: Floats) -> Floats:
        return option_scores(setting, ref, p, samples, f"conformal score '{ref['label']}'")

    of_clean = scored(clean)
    rows = np.flatnonzero((calibrates == 1) & (truth >= 0) & ~np.isnan(clean).all(axis=1))
    own = np.full(len(truth), np.nan)
    # Cast to the type of the probabilities and back: the published code compares scores at that precision.
    own[rows] = of_clean[rows, truth[rows]].astype(clean.dtype)
    enters = np.where(np.isnan(scores := of_clean if probs is clean else scored(probs)), np.inf, scores).astype(np.float64)
    if setting["empty_set"] == "argmax":
        best = enters == enters.min(axis=1, keepdims=True)
        # The option that an empty set would be given is always in: an empty set is then impossible, and sets only grow.
        enters[np.arange(len(enters)), np.where(best, np.nan_to_num(probs, nan=-1.0), -2.0).argmax(axis=1)] = -np.inf
    how = (setting["alpha"], setting["quantile"])
    slack = SLACK[precision(setting)]
    if (parts := parts_of(samples, setting)) is not None:
        lacking = parts.lacking(parts.thresholds(own, *how))
        return Redraw(own, enters, truth, *how, slack, probs is clean, parts=parts, lacking=lacking)
    return Redraw(own, enters, truth, *how, slack, probs is clean, (threshold(own[rows], *how),))


def precision(setting: Mapping[str, Any]) -> Precision:
    """Return the floating-point precision of a setting."""
    chosen: Precision = setting.get("precision", "double")
    return chosen


def weighted_threshold(scores: Floats, weights: Weights, alpha: float, quantile: str) -> Floats:
    """The threshold of each resample of ascending scores. Only places near the expected one are looked at, and more if need be."""
    times, n = weights.shape
    # Groups differ in size, so resamples differ in rows, and each has a rank of its own.
    totals = np.rint(weights @ np.ones(n))
    unique = np.unique(totals)
    ranks = np.array([order_statistic(int(total), alpha, quantile) for total in unique], dtype=np.float64)
    rank = ranks[np.searchsorted(unique, totals)]
    limits = np.full(times, math.inf)
    enough = rank <= totals
    middle, width = int(n * min(1.0, float(rank.sum() / max(1.0, totals.sum())))), WINDOW
    while enough.any():
        low, high = max(0, middle - width), min(n, middle + width)
        before = weights @ (np.arange(n) < low).astype(np.float64)
        inner = Weights(weights.counts, weights.group[low:high])
        # Counts are whole: half a row of slack is safe against rounding in the matrix products.
        reached = before[:, None] + np.cumsum(np.asarray(inner), axis=1) >= rank[:, None] - 0.5
        # Resamples whose rank lies outside of the window wait for a wider one.
        inside = enough & (before < rank - 0.5) & reached[:, -1]
        limits[inside] = scores[low + reached[inside].argmax(axis=1)]
        if inside.sum() == enough.sum() or (low == 0 and high == n):
            break
        # Some thresholds lie outside of the window. They are few, so a wider one for all is cheaper than one for each.
        width *= 4
    return limits


def nodes(limits: Floats, kept: tuple[float, ...]) -> tuple[Floats, NDArray[np.int64]]:
    """The thresholds to compute sets at, and which of them stands for each resample's: itself, where there are few."""
    distinct, which = np.unique(limits, return_inverse=True)
    if len(distinct) <= NODES:
        return distinct, which
    order = np.argsort(limits, kind="stable")
    # The middle of each of NODES equally large parts of the sorted thresholds.
    middles = limits[order[(np.arange(NODES) * len(order) + len(order) // 2) // NODES]]
    chosen = np.unique(np.concatenate([middles, kept]))
    place = np.clip(np.searchsorted(chosen, limits), 1, len(chosen) - 1) if len(chosen) > 1 else np.zeros(len(limits), dtype=np.int64)
    with np.errstate(invalid="ignore"):
        nearer = np.abs(limits - chosen[place - 1]) <= np.abs(chosen[place] - limits)
    exact = np.searchsorted(chosen, limits)
    # Exact hits apart: inf - inf is NaN above, which says nothing of what is nearer.
    hit = chosen[np.minimum(exact, len(chosen) - 1)] == limits
    return chosen, np.where(hit, exact, place - nearer).astype(np.int64)


@dataclass(frozen=True)
class Band:
    """Where coverage is to be expected, were the promise kept to the letter."""

    target: float
    low: float
    high: float
    calibration: float
    """Independent rows that the calibration rows count as."""
    test: float
    clean: bool = True
    within: str = ""
    """What questions of a part are alike in, where each part has a threshold of its own."""

    @property
    def promise(self) -> str:
        if not self.clean:
            return "nothing is promised: calibrated on clean inputs"
        within = f" given the {self.within}" if self.within else ""
        these = "these of the same part" if self.within else "these"
        return (
            f"at least {self.target:g}{within} on average over draws of calibration questions that are exchangeable with {these}; "
            f"the questions count as {self.calibration:.0f} independent ones that calibrate and {self.test:.0f} that test"
        )


def design_effect(covered: Floats, group: NDArray[np.int64]) -> float:
    """How many rows of these groups say as much as one independent row, at least 1. Where all agree, those of a whole group."""
    sizes = np.bincount(group)
    groups, n, share = int((sizes > 0).sum()), len(covered), float(covered.mean())
    if not 0 < share < 1 or groups < 2:
        return n / groups
    sums = np.bincount(group, covered - share)
    # The variance of the sum as it is over that of independent rows.
    return max(1.0, groups / (groups - 1) * float((sums**2).sum()) / (n * share * (1 - share)))


def band(alpha: float, quantile: str, sizes: Sequence[tuple[int, int]], effect: float, clean: bool = True, within: str = "") -> Band:
    """The Beta-binomial band of coverage, both ends among the shares that can occur; of several parts, that of their sum.

    Args:
        alpha: error that is allowed.
        quantile: how the threshold is chosen.
        sizes: of each part: rows that calibrate, rows that test.
        effect: rows that say as much as one independent row.
        clean: whether inputs are those that were calibrated on.
        within: what questions of a part are alike in.

    >>> found = band(0.1, "standard", [(1000, 1000)], 1.0)
    >>> found.low, found.high
    (0.873, 0.925)
    """
    target = float(1 - Fraction(str(alpha)))
    drawn, tested = (sum(of) / effect for of in zip(*sizes, strict=True))
    chance = np.ones(1)
    for calibration, test in sizes:
        least = 1 if len(sizes) == 1 else 0
        rows, k = max(least, round(test / effect)), order_statistic(calibration, alpha, quantile)
        # Without a threshold everything is covered for certain: a unit mass at the last place.
        chance = np.convolve(chance, np.eye(rows + 1)[rows] if k > calibration else _covered(rows, calibration / effect, k, calibration))
    rows, summed = len(chance) - 1, np.cumsum(chance)
    low, high = (int(np.searchsorted(summed, tail)) for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Band(target, low / max(1, rows), min(high, rows) / max(1, rows), drawn, tested, clean, within)


def _covered(rows: int, drawn: float, k: int, calibration: int) -> Floats:
    """The chance of each number of covered rows."""
    from scipy.special import gammaln

    # Beta(k, n + 1 - k) with n shrunk to the effective number; its mean k / (n + 1) stays.
    a = (drawn + 1) * k / (calibration + 1)
    b = drawn + 1 - a
    x = np.arange(rows + 1)
    # In logarithms: the Gamma function of a thousand overflows.
    log = gammaln(rows + 1) - gammaln(x + 1) - gammaln(rows - x + 1) + gammaln(x + a) + gammaln(rows - x + b) - gammaln(rows + a + b)
    chance: Floats = np.exp(log + gammaln(a + b) - gammaln(a) - gammaln(b))
    return chance
