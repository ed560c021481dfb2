"""A metric's value in the sample and in every resample, and the evaluation it comes from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from qualm.runners.data.aligned import Floats
from qualm.runners.scoring.bootstrap import RecordedSums, Resamples
from qualm.runners.scoring.calibration.conformal_band import Band
from qualm.runners.scoring.calibration.conformal_draws import Redraw
from qualm.runners.scoring.calibration.fits import Recalibration
from qualm.runners.scoring.limits import UNBOUNDED, Bounds
from qualm.runners.scoring.measuring.metrics import Metric

MACRO = "macro"
"""The method of a macro average's interval (`qualm.runners.scoring.measuring.macro`)."""
UNKNOWN: Bounds = (math.nan, math.nan)


def or_null(value: float) -> float | None:
    """Return a number for a table: None if it is NaN."""
    return None if math.isnan(value) else float(value)


@dataclass(frozen=True)
class Slice:
    """Some rows of a dataset, with their bootstrap resamples; made by `make_slices`."""

    label: str
    rows: NDArray[np.int64]
    bootstrap: Resamples
    macro: str = ""
    """The field over whose values every metric is averaged, each value counting alike; empty for a metric over all rows."""


@dataclass
class Measured:
    """A metric's value in the sample and in every resample, with counts and reasons."""

    value: float
    resampled: Floats
    n: int
    n_unscored: int
    why: str = ""
    """Why the value is undefined; every undefined value has a reason."""
    why_unscored: str = ""
    """Why rows are left out, where they are many."""
    method: str = "t"
    """By which method its interval is, of `qualm.runners.scoring.limits`."""
    groups: int | None = None
    """Groups with a scored row; None where nobody counted."""
    units: float | None = None
    """Effective number of groups that enter, by their rows (Kish, 1965); of the rarest class where classes are compared."""
    rare: str = ""
    """Why too few groups enter for an interval."""
    own_interval: Callable[[float], tuple[float, float] | str] | None = None
    given: Floats | None = None
    """For conformal sets: values of every resample at the sample's own threshold; `resampled` has redrawn thresholds."""
    calibrating: int | None = None
    """Groups that calibrate, where they are drawn anew too."""
    band: Band | None = None
    """In which a metric with a TARGET is to be expected."""
    why_no_interval: str = ""
    """Why the metric never has one, nor a difference of it."""
    minimum_standard_error: Callable[[float], float] | None = None
    null_test: Callable[[], tuple[float, str]] | None = None
    recalibrated: Recalibration | None = None
    """Recalibration of the confidence that it reads."""
    deleted: Floats = field(default_factory=lambda: np.empty(0))
    """(parts,) Value with each part of the groups deleted (`Resamples.deletions`), test rows alone; empty without a jackknife."""
    bounds: Bounds = UNBOUNDED
    """Which its value cannot leave, nor its interval."""
    chance: float = math.nan
    """Value of an uninformative uncertainty on the same rows."""
    scored_share: float = math.nan
    """Share of the rows that have a value, those that cannot have one left out."""
    if_unread: Bounds = UNKNOWN
    """The value if all unread answers were wrong, and if all were right; NaN where nothing is unread or the metric does not say."""
    slice_of_macro: str = ""
    """Slice of a value that a macro average is over."""
    group_codes: NDArray[np.int64] | None = None
    """The groups with a scored row."""
    unread: bool = False
    """True if its resamples are not needed and so do not exist."""
    averaged: Sequence[Measured] = ()
    """For a macro average: the averaged values."""

    def __post_init__(self) -> None:
        if math.isnan(self.value) and not self.why:
            raise ValueError("a value is undefined, and nothing says why; give `why`")

    @property
    def undefined(self) -> int:
        """Return the number of resamples without a value; 0 if the sample has none either."""
        return 0 if np.isnan(self.value) else int(np.isnan(self.resampled).sum())


@dataclass
class MetricTask:
    """One evaluation of one metric on the scored rows of a slice."""

    metric: Metric
    arrays: list[Floats]
    rows: NDArray[np.int64]
    """Places of these rows in the slice."""
    recorded: RecordedSums
    measured: Measured
    of_cell: NDArray[np.int64]
    """Places of these rows in the cell."""
    group: NDArray[np.int64]
    """Group of each of these rows."""
    counted: NDArray[np.bool_]
    """Rows that the metric is over; the others only calibrate."""
    redraw: Redraw | None = None
    """Recalibration of its conformal sets in resamples."""
    refit: Recalibration | None = None
    """Refit of its recalibrated confidence in resamples."""

    @property
    def sums_row_by_row(self) -> bool:
        """Return whether the metric takes only sums, each term of which depends on one row."""
        return self.recorded.only_sums and self.metric.is_row_by_row


def mean_of(measured: list[Measured]) -> Measured:
    """Return the mean of measured values, over scores and then slices, resample by resample."""
    slices = list(dict.fromkeys(p.slice_of_macro for p in measured))
    if slices == [""]:
        return _mean_over_scores(measured)
    return macro_average([_mean_over_scores([p for p in measured if p.slice_of_macro == name]) for name in slices])


def _mean_over_scores(measured: list[Measured]) -> Measured:
    if len(measured) == 1:
        return measured[0]
    first = measured[0]
    return Measured(
        float(np.mean([p.value for p in measured])),
        mean_of_arrays([p.resampled for p in measured]),
        min(p.n for p in measured),
        max(p.n_unscored for p in measured),
        next((p.why for p in measured if p.why), ""),
        first.why_unscored,
        first.method,
        first.groups,
        first.units,
        next((p.rare for p in measured if p.rare), ""),
        None,
        _mean_given(measured),
        first.calibrating,
        why_no_interval=first.why_no_interval,
        deleted=mean_of_arrays([p.deleted for p in measured]),
        bounds=mean_bounds(measured),
        scored_share=min(p.scored_share for p in measured),
        slice_of_macro=first.slice_of_macro,
        group_codes=first.group_codes,
    )


def mean_of_arrays(arrays: Sequence[Floats]) -> Floats:
    """Return the elementwise mean; empty if lengths differ."""
    return np.asarray(np.mean(arrays, axis=0)) if len(set(map(len, arrays))) == 1 else np.empty(0)


def macro_average(measured: Sequence[Measured]) -> Measured:
    """Return the mean of the values of slices, each counting alike, resample by resample.

    Rows are summed and groups united. The average is undefined if one of the values is, and the reason names its slice.
    """
    first = measured[0]
    undefined = next((p for p in measured if math.isnan(p.value)), None)
    codes = [p.group_codes for p in measured if p.group_codes is not None]
    groups = len(np.unique(np.concatenate(codes))) if len(codes) == len(measured) else None
    return Measured(
        float(np.mean([p.value for p in measured])),
        mean_of_arrays([p.resampled for p in measured]),
        sum(p.n for p in measured),
        sum(p.n_unscored for p in measured),
        "" if undefined is None else f"{undefined.slice_of_macro}: {undefined.why}",
        next((f"{p.slice_of_macro}: {p.why_unscored}" for p in measured if p.why_unscored), ""),
        MACRO,
        groups,
        groups,
        next((f"{p.slice_of_macro}: {p.rare}" for p in measured if p.rare), ""),
        None,
        _mean_given(list(measured)),
        min((p.calibrating for p in measured if p.calibrating is not None), default=None),
        why_no_interval=first.why_no_interval,
        recalibrated=first.recalibrated,
        deleted=mean_of_arrays([p.deleted for p in measured]),
        bounds=mean_bounds(measured),
        chance=float(np.mean([p.chance for p in measured])),
        scored_share=_scored_share(measured),
        if_unread=_mean_if_unread(measured),
        averaged=measured,
    )


def _scored_share(measured: Sequence[Measured]) -> float:
    """Return the scored share of all slices' rows together; NaN if a slice has no scored row."""
    if not all(p.scored_share > 0 for p in measured):
        return math.nan
    return sum(p.n for p in measured) / sum(p.n / p.scored_share for p in measured)


def _mean_if_unread(measured: Sequence[Measured]) -> Bounds:
    """Return the slices' mean value if unread answers were wrong, and if right; NaN if none."""
    if all(math.isnan(p.if_unread[0]) for p in measured):
        return UNKNOWN
    wrong, right = np.mean([(p.value, p.value) if math.isnan(p.if_unread[0]) else p.if_unread for p in measured], axis=0)
    return float(wrong), float(right)


def mean_bounds(measured: Sequence[Measured]) -> Bounds:
    """Return the (lowest, highest) possible mean of values, from the bounds of each."""
    lows, highs = zip(*(p.bounds for p in measured), strict=True)
    return sum(lows) / len(measured), sum(highs) / len(measured)


def _mean_given(measured: list[Measured]) -> Floats | None:
    values = [p.given for p in measured if p.given is not None]
    return np.asarray(np.mean(values, axis=0)) if len(values) == len(measured) and len({len(g) for g in values}) == 1 else None
