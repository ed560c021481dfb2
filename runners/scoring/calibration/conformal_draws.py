"""Conformal sets over draws of the calibration rows: what is claimed of a model and method, and not of one threshold.

A threshold is an order statistic of few scores and differs from draw to draw; a resample of the test rows alone holds it fixed, and its
interval answers another question: what these very sets would do on more test rows. Here each resample draws the calibration groups too,
takes its own threshold from them and applies it (Efron, Tibshirani, 1993, chapter 8: resample all that was sampled).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Floats, Weights
from qualm.runners.data.aligned import Samples
from qualm.runners.data.calibration_split import Precision
from qualm.runners.scoring.bootstrap import Resamples
from qualm.runners.scoring.calibration.conformal_band import (
    UNITS,
    Band,
    Unit,
    band,
    describe_guarantee,
    design_effect,
    exchangeable_unit,
    group_means,
    independent_rows,
)
from qualm.runners.scoring.calibration.conformal_parts import QuestionParts, parts_of
from qualm.runners.scoring.calibration.conformal_scores import option_scores
from qualm.runners.scoring.calibration.conformal_sets import (
    SLACK,
    SUM_TOLERANCE,
    Ints,
    fewest_units,
    required_sum,
    shares,
    threshold,
    units_of,
)
from qualm.runners.scoring.last_value import LastValue

NODES = 24
"""Thresholds at which sets are computed; where resamples have more different ones, the nearest of so many equally likely ones stand in."""
NODES_OF_PART = 128
WINDOW = 64
MAX_NUMBERS, CHUNK = 64_000_000, 64
"""Rows of resamples whose sets by parts are kept for the next slice, and resamples whose sets are made at once."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Prediction sets of rows at ascending thresholds: sets at the lowest, then each change."""

    members: Ints
    """(n,): the rows, all that share these thresholds."""
    limits: Floats
    which: Ints
    """(B,): which of them is each resample's."""
    lowest: dict[str, Floats]
    """(n,): the columns `covered` and `set_size` at the lowest."""
    rows: Ints
    at: Ints
    """(m,): the row that changes, and at which threshold, in the order of thresholds."""
    before: dict[str, Floats]
    after: dict[str, Floats]
    """(m,): the columns of that row below the threshold, and from it on."""


@dataclass(eq=False)
class Redraw:
    """Conformal scores of a cell, to be recalibrated in each resample; made by `redraw`."""

    calibration_scores: Floats
    """(n,): score of the right option of each row that calibrates, on clean inputs; NaN elsewhere."""
    enters: Floats
    """(n, K): the least threshold at which each option is in the row's set, -inf where it always is; +inf where there is no option."""
    truth: Ints
    units: Ints
    """(n,): code of each row's exchangeable unit."""
    alpha: float
    quantile: str
    slack: float
    clean: bool = True
    """True for the inputs that the sets were calibrated on."""
    kept: tuple[float, ...] = ()
    """Thresholds of the sample itself, which nothing stands in for."""
    parts: QuestionParts | None = None
    """Parts of the questions with their own thresholds, if any."""
    lacking: str = ""
    """Which of them have none."""
    unit: Unit = "question"
    """Exchangeable unit; `units` has its codes."""
    _last: LastValue[Floats] = field(default_factory=LastValue, init=False, repr=False)
    _each: LastValue[list[dict[str, NDArray[np.int8]]]] = field(default_factory=LastValue, init=False, repr=False)
    _steps: LastValue[list[Steps]] = field(default_factory=LastValue, init=False, repr=False)
    _calibrating: LastValue[int] = field(default_factory=LastValue, init=False, repr=False)

    def thresholds(self, resamples: Resamples) -> Floats:
        """Return (B,) thresholds, +inf if too few rows calibrate; (B, P) with P question parts."""
        return self._last.get(resamples, lambda: self._drawn_limits(resamples))

    def _drawn_limits(self, resamples: Resamples) -> Floats:
        calibrates = ~np.isnan(self.calibration_scores)
        if self.parts is None:
            return self._thresholds(resamples, calibrates)
        of_parts = [calibrates & (self.parts.of_row == p) for p in range(len(self.parts.names))]
        return np.stack([self._thresholds(resamples, of) for of in of_parts], axis=1)

    def _thresholds(self, resamples: Resamples, calibrates: NDArray[np.bool_]) -> Floats:
        rows = np.flatnonzero(calibrates)
        # Sorted once: every resample takes its order statistic from the same order, only the weights differ.
        order = rows[np.argsort(self.calibration_scores[rows], kind="stable")]
        scores, share = self.calibration_scores[order], shares(self.units[order])
        drawn_limits = [weighted_threshold(scores, share, block.rows(order), self.alpha, self.quantile) for block in resamples.blocks()]
        return np.concatenate([*drawn_limits, np.empty(0)])

    def each(self, resamples: Resamples) -> Iterator[dict[str, NDArray[np.int8]]]:
        """Yield int8 (b, n) `covered` and `set_size` of b resamples; needs question parts."""
        if resamples.times * len(self.truth) > MAX_NUMBERS:
            return self._chunks(resamples)
        return iter(self._each.get(resamples, lambda: list(self._chunks(resamples))))

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

    def sets(self, rows: Ints, limit: float) -> dict[str, Floats]:
        """Return columns `covered` and `set_size` of `rows`, (len(rows),), at threshold `limit`."""
        inside = self.enters[rows] <= min(limit + self.slack, np.finfo(np.float64).max)  # +inf is no option
        covered = inside[np.arange(len(rows)), np.maximum(self.truth[rows], 0)]
        return {"covered": covered.astype(np.float64), "set_size": inside.sum(axis=1).astype(np.float64)}

    def steps(self, resamples: Resamples) -> list[Steps]:
        """Return sets at the resampled thresholds, thinned by `nodes`; a Steps per question part."""
        return self._steps.get(resamples, lambda: list(self._make_steps(self.thresholds(resamples))))

    def _make_steps(self, limits: Floats) -> Iterator[Steps]:
        if self.parts is None:
            yield self._steps_at(np.arange(len(self.enters)), *nodes(limits, self.kept))
            return
        for part, of_part in enumerate(limits.T):
            if len(members := np.flatnonzero(self.parts.of_row == part)):
                yield self._steps_at(members, *nodes(of_part, (), NODES_OF_PART))

    def _steps_at(self, members: Ints, limits: Floats, which: Ints) -> Steps:
        bounds = np.minimum(limits + self.slack, np.finfo(np.float64).max)  # +inf is no option
        enters = np.searchsorted(bounds, self.enters[members])  # at which threshold an option enters
        of_truth = enters[np.arange(len(enters)), np.maximum(self.truth[members], 0)]
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
        return Steps(members, limits, which, lowest, members[rows], at, before, after)

    def calibrating(self, resamples: Resamples) -> int:
        """Return how many of the groups that are resampled have calibration rows."""
        return self._calibrating.get(
            resamples, lambda: len(np.unique(resamples.groups_of(np.flatnonzero(~np.isnan(self.calibration_scores)))))
        )

    @cached_property
    def never_empty(self) -> Floats:
        """Return (n,) 1 where a row's set has an option at every threshold."""
        return np.asarray(np.isneginf(self.enters).any(axis=1), dtype=np.float64)

    @cached_property
    def calibrating_units(self) -> list[int]:
        """Return numbers of exchangeable units that calibrate: one per question part, or a total."""
        of_row = np.zeros(len(self.calibration_scores), dtype=np.int64) if self.parts is None else self.parts.of_row
        there = ~np.isnan(self.calibration_scores) & (of_row >= 0)
        parts = range(1 if self.parts is None else len(self.parts.names))
        return [len(np.unique(self.units[there & (of_row == p)])) for p in parts]

    @cached_property
    def why_every_option(self) -> str:
        """Return why too few units calibrate for any threshold; "" if enough, or with parts."""
        n, needed = sum(self.calibrating_units), fewest_units(self.alpha)
        if self.parts is not None or n >= needed:
            return ""
        return f"every set has all options: {n} {UNITS[self.unit]} calibrate, and a threshold at alpha = {self.alpha:g} needs {needed}"

    def band(self, rows: Ints, covered: Floats, group: Ints) -> Band:
        """Return the 95% range expected of these test rows' coverage, and what is guaranteed.

        Of each of `rows`, `covered` is 1 where it is, and `group` the code of its group.
        """
        within, sizes = "", [(self.calibrating_units[0], len(rows))]
        if self.parts is not None:
            of_row = self.parts.of_row[rows]
            tested = np.bincount(of_row[of_row >= 0], minlength=len(self.parts.names)).tolist()
            within, sizes = self.parts.partition_label, [of for of in zip(self.calibrating_units, tested, strict=True) if of[1]]
        effect = design_effect(covered, group)
        each = independent_rows(covered, group) if self.unit == "group" else 1 / effect
        found = band(self.alpha, self.quantile, sizes, effect, each)
        means, rows_of = group_means(covered, group)
        mean = float(means.mean()) if self.parts is None and len(set(rows_of.tolist())) > 1 else None
        return replace(found, promise=self.why_every_option or describe_guarantee(self.unit, found, self.clean, within, mean))

    def select(self, rows: Ints) -> Redraw:
        """Return a copy for some rows; calibration rows outside them no longer calibrate."""
        parts = None if self.parts is None else self.parts.select(rows)
        columns = {name: getattr(self, name)[rows] for name in ("calibration_scores", "enters", "truth", "units")}
        return replace(self, **columns, parts=parts)


def redraw(
    setting: Mapping[str, Any], ref: Mapping[str, Any], clean: Floats, probs: Floats, truth: Ints, calibrates: Floats, samples: Samples
) -> Redraw:
    """Prepare one conformal score of a cell for recalibration in each resample.

    Args:
        setting: of the stage's parameters.
        ref: one of its scores.
        clean: (n, K) probabilities on clean inputs; `probs` on those of the cell.
        truth: (n,) place of the right option, -1 where there is none.
        calibrates: (n,) 1 where a row calibrates.
        samples: whose rows these are, with their groups. A randomised score reads a number of each, the same in every draw.
    """

    def scored(p: Floats) -> Floats:
        return option_scores(setting, ref, p, samples, f"conformal score '{ref['label']}'")

    of_clean = scored(clean)
    rows = np.flatnonzero((calibrates == 1) & (truth >= 0) & ~np.isnan(clean).all(axis=1))
    calibration_scores = np.full(len(truth), np.nan)
    # Cast to the type of the probabilities and back: the published code compares scores at that precision.
    calibration_scores[rows] = of_clean[rows, truth[rows]].astype(clean.dtype)
    enters = np.where(np.isnan(scores := of_clean if probs is clean else scored(probs)), np.inf, scores).astype(np.float64)
    if setting["empty_set"] == "argmax":
        best = enters == enters.min(axis=1, keepdims=True)
        # The option that an empty set would be given is always in: an empty set is then impossible, and sets only grow.
        enters[np.arange(len(enters)), np.where(best, np.nan_to_num(probs, nan=-1.0), -2.0).argmax(axis=1)] = -np.inf
    how = (setting["alpha"], setting["quantile"])
    units, slack, parts = units_of(samples.groups, setting), SLACK[precision(setting)], parts_of(samples, setting)
    kept = () if parts is not None else (threshold(calibration_scores[rows], *how, units[rows]),)
    lacking = "" if parts is None else parts.why_incomplete(parts.thresholds(calibration_scores, *how, units))
    return Redraw(
        calibration_scores, enters, truth, units, *how, slack, probs is clean, kept, parts, lacking, exchangeable_unit(samples, setting)
    )


def precision(setting: Mapping[str, Any]) -> Precision:
    """Return the floating-point precision of a conformal setting, `double` or `single`."""
    chosen: Precision = setting.get("precision", "double")
    return chosen


def weighted_threshold(scores: Floats, share: Floats, weights: Weights, alpha: float, quantile: str) -> Floats:
    """Return (B,) thresholds, one per resample of the scores; +inf with too few units.

    Only places near the expected one are looked at, and more if need be.

    `scores` (n,) are ascending, `share` (n,) is 1 / (rows of the same exchangeable unit), and `weights` are (B, n).
    """
    times, n = weights.shape
    # Resamples differ in how many units they have, and each requires a sum of its own.
    totals = np.rint(weights @ share)
    unique = np.unique(totals)
    required = np.array([required_sum(int(total), alpha, quantile) for total in unique])[np.searchsorted(unique, totals)] - SUM_TOLERANCE
    limits = np.full(times, math.inf)
    left = np.flatnonzero(required <= totals)
    middle, width = int(n * min(1.0, float(required.sum() / max(1.0, totals.sum())))), WINDOW
    while len(left):
        low, high = max(0, middle - width), min(n, middle + width)
        counts = weights.counts if len(left) == times else weights.counts[left]
        before = Weights(counts, weights.group) @ (share * (np.arange(n) < low))
        reached = np.asarray(Weights(counts, weights.group[low:high])) * share[low:high]
        np.cumsum(reached, axis=1, out=reached)
        first = (reached < (required[left] - before)[:, None]).sum(axis=1)
        inside = (before < required[left]) & (first < high - low)
        limits[left[inside]] = scores[low + first[inside]]
        if low == 0 and high == n:
            break
        # Resamples whose threshold lies outside of the window wait for a wider one.
        left, width = left[~inside], 4 * width
    return limits


def nodes(limits: Floats, always_included: tuple[float, ...], max_nodes: int = NODES) -> tuple[Floats, Ints]:
    """Reduce (B,) limits to about `max_nodes`; return (these, (B,) index of the nearest).

    Limits that are few enough are all kept; otherwise `always_included` are kept besides.
    """
    distinct, which = np.unique(limits, return_inverse=True)
    if len(distinct) <= max_nodes:
        return distinct, which
    order = np.argsort(limits, kind="stable")
    # The middle of each of `max_nodes` equally large parts of the sorted thresholds.
    middles = limits[order[(np.arange(max_nodes) * len(order) + len(order) // 2) // max_nodes]]
    chosen = np.unique(np.concatenate([middles, always_included]))
    place = np.clip(np.searchsorted(chosen, limits), 1, len(chosen) - 1) if len(chosen) > 1 else np.zeros(len(limits), dtype=np.int64)
    with np.errstate(invalid="ignore"):
        nearer = np.abs(limits - chosen[place - 1]) <= np.abs(chosen[place] - limits)
    exact = np.searchsorted(chosen, limits)
    # Exact hits apart: inf - inf is NaN above, which says nothing of what is nearer.
    hit = chosen[np.minimum(exact, len(chosen) - 1)] == limits
    return chosen, np.where(hit, exact, place - nearer).astype(np.int64)
