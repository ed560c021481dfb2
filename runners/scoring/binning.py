"""Equal-width confidence bins, by each of the four conventions in use.

The same confidences give different calibration errors under each, which is why a convention is always named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Floats, number_groups

DRAWS = 1000
"""Number of random draws of the gaps under perfect calibration, and their seed."""
HALVINGS, HALVINGS_OF_FEW, FEW = 2, 5, 64
"""Halvings of a search that are looked at together; where no more than so few draws are left."""
REMEMBERED = 16_384


def bin_of(confidence: Floats, bins: int, convention: str) -> NDArray[np.int64]:
    """Return (n,) bin indices from 0; `guo`: -1 for a 0; `torchmetrics`: `bins` for a 1.

    Such a 0 is in no bin, such a 1 in a bin of its own. Bin i spans i/bins to (i+1)/bins.

    | convention | bins are | used by |
    |---|---|---|
    | torchmetrics | [low, high), and exactly 1 in bin number `bins`, its own | torchmetrics, VLM-Uncertainty-Bench |
    | guo | (low, high], and exactly 0 in none | Guo et al. 2017 code, reliable-VQA |
    | lm_polygraph | (low, high], the first closed on both sides | lm-polygraph |
    | netcal | [low, high), the last closed on both sides | netcal |

    Of netcal and lm-polygraph a decimal that is an edge falls where the library puts it: both take numpy's `linspace`, whose 0.6 of
    five bins lies one bit above 0.6. Of the other two it falls where a reader expects it: an edge is i/bins rounded once, so 0.2 is
    in bin 3 of 15. torchmetrics' own edges are a running sum in the precision of what it is given: in float32 it puts 0.2, 0.4 and
    7/15 of fifteen bins one lower, in float64 11/15. No confidence behind a published number lies on an edge.

    Raises:
        ValueError: a confidence outside [0, 1], fewer than one bin, or an unknown convention.
    """
    if bins < 1:
        raise ValueError(f"bins: expected at least 1, got {bins}")
    if len(confidence) and not (confidence.min() >= 0 and confidence.max() <= 1):
        raise ValueError(f"confidence: expected numbers in [0, 1], got {confidence.min()} to {confidence.max()}")
    edges = np.linspace(0, 1, bins + 1) if convention in ("netcal", "lm_polygraph") else np.arange(bins + 1) / bins
    if convention == "torchmetrics":
        return np.searchsorted(edges, confidence, side="right") - 1
    if convention == "netcal":
        return np.minimum(np.searchsorted(edges, confidence, side="right") - 1, bins - 1)
    if convention == "guo":
        return np.searchsorted(edges, confidence, side="left") - 1
    if convention == "lm_polygraph":
        return np.maximum(np.searchsorted(edges, confidence, side="left") - 1, 0)
    raise ValueError(f"convention: expected torchmetrics, guo, lm_polygraph or netcal, got {convention!r}")


def bin_membership(confidence: Floats, bins: int, convention: str) -> Floats:
    """Return an (n, k) 0/1 matrix of the rows in the k non-empty bins; do not write to it.

    A value, its interval and its test are of the same confidences, so those of few rows are remembered.
    """
    if len(confidence) > REMEMBERED:
        return _members(confidence, bins, convention)
    return _remembered(np.asarray(confidence, dtype=np.float64).tobytes(), bins, convention)


@lru_cache(maxsize=32)
def _remembered(confidence: bytes, bins: int, convention: str) -> Floats:
    inside = _members(np.frombuffer(confidence, dtype=np.float64), bins, convention)
    inside.flags.writeable = False
    return inside


def _members(confidence: Floats, bins: int, convention: str) -> Floats:
    place = bin_of(confidence, bins, convention)
    held = np.flatnonzero(np.bincount(place + 1)[1:])
    inside: Floats = (place[:, None] == held).astype(np.float64)
    return inside


def calibration_error_interval(gaps: Floats, group: NDArray[np.int64], level: float, distance: tuple[float, float]) -> tuple[float, float]:
    """Return the (low, high) interval of a binned calibration error by test inversion.

    The plain error, a sum of absolute values, is too large by chance alone, the more so the better the calibration. So the test is
    inverted (Carpenter, 1999) along gaps lambda d, d being those of the sample: the error lambda sum |d| is in the interval if the plain
    one lies between the outer quantiles of sum |lambda d + e|, e normal with the covariance of the gaps' sums over groups. The low end is
    0 where perfect calibration is not refuted. What is held is the error of these bins with endless questions.

    The error is never below the distance of mean confidence from accuracy. So the high end is not below that of the distance's interval
    (where gaps of one sign are small beside chance, those of the sample change signs, and lambda d alone would fall short), and the low
    end lies below the error by as much at least as the distance may be smaller (where errors are rare, the sample varies too little).

    Args:
        gaps: (n, k) correctness less confidence of each row, over the number of rows, in the column of its bin.
        group: (n,) the group of each row.
        level: for instance .95.
        distance: The interval of accuracy less mean confidence.
    """
    from qualm.runners.scoring.limits import critical, effective_units

    total, apart = group_deviations(gaps, group)
    q = critical(level, max(1.0, effective_units(group) - 1))
    # Normal draws widened to Student's t, as the number of groups asks for.
    draws = normal_draws(apart) * (q / critical(level, np.inf))
    observed, tail = float(np.abs(total).sum()), (1 - level) / 2
    above = _CrossingSearch(total, draws, observed)
    nearest = max(0.0, distance[0], -distance[1])
    low, high = observed * above.crossing(tail), observed * above.crossing(1 - tail)
    # The error may be as much smaller as the distance may be.
    low = max(0.0, min(low, observed - (abs(float(total.sum())) - nearest)))
    return low, min(1.0, max(high, -distance[0], distance[1]))


@dataclass(frozen=True)
class Calibrated:
    """Model of perfectly calibrated answers: each is right with its confidence as probability."""

    confidence: Floats
    group: NDArray[np.int64]
    within: float
    """Correlation of the answers of one group."""

    @classmethod
    def fit(cls, confidence: Floats, correct: Floats, group: NDArray[np.int64]) -> Calibrated:
        """Return `Calibrated` of the rows, with the correlation of their errors within groups.

        An error is correctness minus confidence. The correlation is limited to [0, 1], and 0 if no group has two rows.
        """
        place = number_groups(group)[0]
        off, spread = correct - confidence, np.sqrt(confidence * (1 - confidence))
        # The square of a group's sum holds every pair twice and every row once: less the squares, pairs are left; of a row alone none is.
        product, pairs = ((np.bincount(place, x) ** 2 - np.bincount(place, x**2)).sum() for x in (off, spread))
        return cls(confidence, place, float(np.clip(product / pairs, 0, 1)) if pairs > 0 else 0.0)

    def null_test(self, correct: Floats, in_bin: Floats, error_of_gaps: Callable[..., Floats] = np.sum) -> tuple[float, str]:
        """Return (p-value of perfect calibration from simulated bin gaps, hypothesis in words).

        Args:
            correct: (n,) correctness.
            in_bin: (n, k) 0/1 matrix of bin membership, or smoothing weights.
            error_of_gaps: Computes the error from absolute gaps, along `axis=1`.
        """
        spread, total = np.sqrt(self.confidence * (1 - self.confidence)), in_bin.T @ (correct - self.confidence)
        alike = _group_sums(in_bin * spread[:, None], self.group, int(self.group.max(initial=-1)) + 1)
        variance = (1 - self.within) * (in_bin * spread[:, None] ** 2).T @ in_bin + self.within * alike.T @ alike
        # The same sum in another order may differ in its last digits, and an equal draw must count as large as what was observed.
        as_large = error_of_gaps(np.abs(draws_with_covariance(variance)), axis=1) >= error_of_gaps(np.abs(total)) - 1e-9
        words = f"confidence is each answer's chance to be right; answers of one group are correlated by {self.within:.2f}"
        return float((1 + as_large.sum()) / (1 + DRAWS)), words

    def band(self, rows: NDArray[np.intp], level: float = 0.95) -> tuple[float, float]:
        """Return the (low, high) accuracy of the rows `rows` that perfect calibration allows.

        The consistency band of Broecker, Smith, 2007.

        Rows of a group count as fewer, by the design effect of their correlation (Kish, 1965).
        """
        from scipy.special import bdtr

        sizes = np.bincount(self.group[rows]).astype(np.float64)
        effect = 1 + ((sizes**2).sum() / len(rows) - 1) * self.within
        independent = round(len(rows) / effect)
        chance = bdtr(np.arange(independent + 1), independent, float(self.confidence[rows].mean()))
        low, high = (int(np.searchsorted(chance, tail)) for tail in ((1 - level) / 2, (1 + level) / 2))
        return low / independent, min(high, independent) / independent


def group_deviations(columns: Floats, group: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return ((k,) sums, (groups, k) deviations of groups' sums from their share of rows).

    A group's share is the total times its share of rows: groups are drawn, and their sizes are no result. The scale is that of
    groups / (groups - 1); there must be two groups.
    """
    place, rows = number_groups(group)
    sums = _group_sums(columns, place, len(rows))
    total = sums.sum(axis=0)
    return total, (sums - np.outer(rows / len(group), total)) / np.sqrt(1 - 1 / len(rows))


def _group_sums(columns: Floats, group: NDArray[np.int64], groups: int) -> Floats:
    """Return (groups, k) sums of the (n, k) columns' rows by group code."""
    k = columns.shape[1]
    cells = (group[:, None] * k + np.arange(k)).ravel()
    return np.bincount(cells, columns.ravel(), groups * k).astype(np.float64).reshape(groups, k)


def normal_draws(deviations: Floats) -> Floats:
    """Return (DRAWS, k) normal draws with the covariance `deviations.T @ deviations`."""
    return draws_with_covariance(deviations.T @ deviations)


def draws_with_covariance(covariance: Floats) -> Floats:
    """Return (DRAWS, k) normal draws with a covariance; the seed is fixed."""
    values, vectors = np.linalg.eigh(covariance)
    # Eigenvectors are unique only up to sign, and differ between LAPACKs; this root does not.
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T  # the symmetric one, which is unique
    draws: Floats = _unit_draws(len(root)) @ root
    return draws


@lru_cache(maxsize=64)
def _unit_draws(k: int) -> Floats:
    """Return (DRAWS, k) independent standard normal draws; the seed is fixed."""
    return np.random.default_rng(DRAWS).normal(size=(DRAWS, k))


class _CrossingSearch:
    """Search for the least factor f with sum |f d + e| >= sum |d| in a given share of draws e.

    Each sum is convex in the factor and rises or falls by at most sum |d| per unit, so what it is at both ends of a stretch tells of most
    draws on which side they are all along it. Only the others are looked at within.
    """

    def __init__(self, total: Floats, draws: Floats, observed: float) -> None:
        self._total, self._draws, self._observed = total[:, None], np.ascontiguousarray(draws.T), observed
        self._of_all: dict[float, Floats] = {}

    def _sums(self, factor: float) -> Floats:
        if factor not in self._of_all:
            self._of_all[factor] = _absolute_sums(factor * self._total, self._draws)
        return self._of_all[factor]

    def crossing(self, share: float) -> float:
        """Return the least factor >= 0 of the gaps at which `share` of draws reach the observed."""
        low, high, least, count = 0.0, 1.0, self._observed - 1e-12, self._draws.shape[1]
        if np.count_nonzero(self._sums(low) >= least) / count >= share:
            return 0.0
        while np.count_nonzero(self._sums(high) >= least) / count < share and high < 1e6:
            high *= 2
        draws, at_low, at_high, certain, halvings = self._draws, self._sums(low), self._sums(high), 0, 24
        while halvings:
            slack = 1e-9 * (1 + (1 + high) * self._observed)  # far more than rounding
            # The lowest that both ends and the slope allow, where the two lines meet, is above already.
            above = at_low + at_high - (high - low) * self._observed > 2 * (self._observed + slack)
            certain += int(np.count_nonzero(above))
            open_ = (~above & (np.maximum(at_low, at_high) > self._observed - slack)).nonzero()[0]
            draws, at_low, at_high = draws.take(open_, axis=1), at_low[open_], at_high[open_]

            at_once = min(halvings, HALVINGS_OF_FEW if len(open_) <= FEW else HALVINGS)
            ends = low + (high - low) / 2**at_once * np.arange(2**at_once + 1)  # exact, so those that halving meets
            sums = _absolute_sums(ends[1:-1, None, None] * self._total, draws)
            reached = (certain + np.add.reduce(sums >= least, axis=1, dtype=np.int64)) / count >= share
            first, last = 0, 2**at_once
            while last - first > 1:
                middle = (first + last) // 2
                first, last = (first, middle) if reached[middle - 1] else (middle, last)
            at_low, at_high = sums[first - 1] if first else at_low, sums[last - 1] if last < 2**at_once else at_high
            low, high, halvings = float(ends[first]), float(ends[last]), halvings - at_once
        return (low + high) / 2


def _absolute_sums(moved_by: Floats, draws: Floats) -> Floats:
    """Return (..., n) sums over k of |draws + moved_by|, for `draws` (k, n)."""
    moved = draws + moved_by
    sums: Floats = np.add.reduce(np.abs(moved, out=moved), axis=-2)
    return sums
