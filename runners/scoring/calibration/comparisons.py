"""Does recalibrating help? Every calibrator against the raw confidence and against each other, on the rows that none of them saw.

All are measured on the same rows in the same resamples, in each of which every calibrator is fitted anew. The test of a difference sets it
against its spread over these; p-values are corrected together by max-T (`qualm.runners.scoring.rankings`). The interval of a difference is
Student's t; but of calibration errors, metrics that have a test of being perfect but for chance, the plain difference is biased, since
chance adds to small errors more than to large ones, and both ends are put together of those of the two values, less what their resamples
share (Zou, Donner, 2008).

All of it is careful where a calibrator changes little: what is left is chance of the fit times chance of the rows, which resamples make too
large. How careful: docs/explanation/statistics.md.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from qualm.runners.runtime.precision import round_result
from qualm.runners.scoring import limits as ends_of
from qualm.runners.scoring.calibration.fits import RAW, Recalibration
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.limits import Limits, clip_to_bounds, difference_bounds, limits
from qualm.runners.scoring.measuring.measured import Measured, Slice
from qualm.runners.scoring.measuring.metrics import Metric
from qualm.runners.scoring.rankings import DEFINED, MIN_GROUPS, Candidate, Ranked, family_of, p_values, ranked

CALIBRATORS = "calibrators"


@dataclass(frozen=True)
class MeasuredCalibrator:
    """Measured value and interval of one calibrator, or of the raw confidence."""

    recalibration: Recalibration
    measured: Measured
    ends: Limits

    @property
    def name(self) -> str:
        return "/".join(filter(None, (self.recalibration.method, self.recalibration.of)))


@dataclass
class Comparisons:
    """Collects measured calibrators, and tests each pair that shares a score or includes raw."""

    metrics: Sequence[Metric]
    level: float
    family: str
    columns: list[tuple[Ranked, str, list[MeasuredCalibrator]]] = field(default_factory=list)

    def add(self, cell: Cell, part: Slice, values: Sequence[tuple[str, Measured]], ends: Sequence[Limits]) -> None:
        shared_family: dict[tuple[str, str], list[MeasuredCalibrator]] = {}
        for (label, measured), limit in zip(values, ends, strict=True):
            if (of := measured.recalibrated) is not None and not np.isnan(measured.value):
                shared_family.setdefault((label.removesuffix(f"[{of.label}]"), of.setting), []).append(
                    MeasuredCalibrator(of, measured, limit)
                )
        for (label, setting), ones in shared_family.items():
            ones.sort(key=lambda one: one.recalibration.method != RAW)  # what others are compared with comes first
            metric = next(m for m in self.metrics if m.label == label)
            better = metric.plugin.declares.get("higher_is_better")
            if better is None or metric.why_no_interval or (column := self._column(cell, part, label, setting, better, ones)) is None:
                continue
            self.columns.append(column)

    def _column(
        self, cell: Cell, part: Slice, label: str, setting: str, better: bool, ones: list[MeasuredCalibrator]
    ) -> tuple[Ranked, str, list[MeasuredCalibrator]] | None:
        times = min((len(one.measured.resampled) for one in ones), default=0)
        groups = min((one.measured.groups or 0 for one in ones), default=0)
        usable = [one for one in ones if times and (~np.isnan(one.measured.resampled[:times])).mean() >= DEFINED]
        if groups < MIN_GROUPS or len(usable) < 2:
            return None
        candidates = []
        for one in usable:
            drawn = one.measured.resampled[:times]
            filled = np.where(np.isnan(drawn), one.measured.value, drawn).astype(np.float32)
            candidates.append(Candidate(one.name, one.measured.value, filled, one.measured.n))
        place = (cell.samples.name, part.label, label, cell.variant, CALIBRATORS, cell.model)
        return ranked(place, better, candidates, groups, self.level), setting, usable

    def rows(self) -> list[dict[str, Any]]:
        """Return CALIBRATOR_COMPARISONS rows, one per tested pair; [] with too few groups."""
        rows: list[dict[str, Any]] = []

        def shared_family(column: tuple[Ranked, str, list[MeasuredCalibrator]]) -> tuple[Any, ...]:
            # Columns of different numbers of resamples cannot share a maximum, so they are families of their own.
            return len(column[0].highest), *family_of(column[0].place, self.family)

        for _, members in groupby(sorted(self.columns, key=shared_family), key=shared_family):
            of = list(members)
            highest = np.sort(np.max([column.highest for column, _, _ in of], axis=0))
            for column, setting, ones in of:
                rows += self._pairs(column, setting, ones, p_values(column.z, highest))
        return rows

    def _pairs(self, column: Ranked, setting: str, ones: list[MeasuredCalibrator], p: Any) -> Iterator[dict[str, Any]]:
        from scipy.special import ndtr

        dataset, part, metric, variant, _, model = column.place
        for i, a in enumerate(ones):
            for j in range(i + 1, len(ones)):
                b = ones[j]
                if a.recalibration.of != b.recalibration.of and a.recalibration.method != RAW:
                    continue
                ends = difference(a, b, self.level)
                yield {
                    "model": model,
                    "dataset": dataset,
                    "variant": variant,
                    "slice": part,
                    "metric": metric,
                    "setting": setting,
                    "a": a.name,
                    "b": b.name,
                    "value_a": round_result(a.measured.value),
                    "value_b": round_result(b.measured.value),
                    "difference": round_result(b.measured.value - a.measured.value),
                    "low": None if math.isnan(ends.low) else round_result(ends.low),
                    "high": None if math.isnan(ends.high) else round_result(ends.high),
                    "p": float(2 * ndtr(-column.z[i, j])),
                    "p_adjusted": float(p[i, j]),
                    "n": min(a.measured.n, b.measured.n),
                    "higher_is_better": column.higher_is_better,
                }


def difference(a: MeasuredCalibrator, b: MeasuredCalibrator, level: float) -> Limits:
    """Return the interval of b's value minus a's: of resamples, else of both intervals."""
    value = b.measured.value - a.measured.value
    if a.measured.null_test is not None:
        if math.isnan(a.ends.low) or math.isnan(b.ends.low):
            return Limits(why_none="one of the two has no interval")
        down = _error_of_difference(b.measured.value - b.ends.low, a.ends.high - a.measured.value, _correlation(a, b))
        up = _error_of_difference(b.ends.high - b.measured.value, a.measured.value - a.ends.low, _correlation(a, b))
        return clip_to_bounds(Limits(value - down, value + up), value, difference_bounds(a.measured.bounds))
    times = min(len(a.measured.resampled), len(b.measured.resampled))
    drawn = b.measured.resampled[:times] - a.measured.resampled[:times]
    units = min(a.measured.groups or 0, b.measured.groups or 0)
    calibrating = min((m.calibrating for m in (a.measured, b.measured) if m.calibrating is not None), default=None)
    fewest = units if calibrating is None else min(units, calibrating)
    if fewest < ends_of.MIN_GROUPS:
        return Limits(why_none=f"{fewest} groups on one side of the split: an interval needs {ends_of.MIN_GROUPS}")
    with_jackknife = len(a.measured.deleted) == len(b.measured.deleted)
    deleted = b.measured.deleted - a.measured.deleted if with_jackknife else np.empty(0)
    ends = limits("t", value, drawn, deleted, units, level, calibrating)
    return ends if ends.why_none else clip_to_bounds(ends, value, difference_bounds(a.measured.bounds))


def _correlation(a: MeasuredCalibrator, b: MeasuredCalibrator) -> float:
    """Return the correlation of two values over common resamples; 0 if negative or unknown."""
    times = min(len(a.measured.resampled), len(b.measured.resampled))
    drawn = np.stack([a.measured.resampled[:times], b.measured.resampled[:times]])
    drawn = drawn[:, ~np.isnan(drawn).any(axis=0)]
    if drawn.shape[1] < 2 or not drawn.std(axis=1).all():
        return 0.0
    return max(0.0, float(np.asarray(np.corrcoef(drawn))[0, 1]))


def _error_of_difference(error_a: float, error_b: float, correlation: float) -> float:
    """Combine the one-sided errors of two correlated values into that of their difference."""
    return math.sqrt(max(0.0, error_a**2 + error_b**2 - 2 * correlation * error_a * error_b))
