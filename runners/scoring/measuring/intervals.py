"""The interval of what was measured, or why there is none."""

import math
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from qualm.runners.runtime.precision import round_result
from qualm.runners.scoring.limits import FLAT, MIN_GROUPS, Limits, clip_to_bounds, critical, degrees_of_freedom, limits, standard_error
from qualm.runners.scoring.measuring.macro import ValueEstimate, correlations, macro_limits
from qualm.runners.scoring.measuring.measured import Measured, or_null


def intervals(measured: Sequence[Measured], level: float, groups: int) -> list[Limits]:
    """Return one interval per value by its method, or why none; `groups` are the slice's."""
    distinct = {id(one): one for one in measured}  # several settings may share one value
    limits_of = {key: _interval(one, level, groups if one.groups is None else one.groups) for key, one in distinct.items()}
    return [limits_of[id(one)] for one in measured]


def intervals_and_columns(measured: Sequence[Measured], level: float, groups: int) -> tuple[list[Limits], list[dict[str, Any]]]:
    """Return (interval of each value, columns of each value's score row by name).

    One value at a time, since an interval and a test may share what they are made of.
    """
    both: dict[int, tuple[Limits, dict[str, Any]]] = {}
    for one in measured:
        if id(one) not in both:
            (ends,) = intervals([one], level, groups)
            both[id(one)] = ends, value_columns(one, ends, level)
    return [both[id(one)][0] for one in measured], [both[id(one)][1] for one in measured]


def _interval(one: Measured, level: float, groups: int) -> Limits:
    if np.isnan(one.value):
        return Limits()
    if why := _why_none(one, groups):
        return Limits(why_none=why)
    if one.averaged:
        return _macro_average_interval(one, level)
    if one.own_interval is not None:
        found = one.own_interval(level)
        if isinstance(found, str):
            return Limits(why_none=found)
        ends = Limits(min(found[0], one.value), max(found[1], one.value))
        if one.calibrating is not None and one.given is not None:
            ends = _widen_interval(one, ends, level, groups)
        if not math.isfinite(ends.high - ends.low):
            return Limits(why_none="there is no bound to what an unseen answer would add")
        if ends.high - ends.low <= FLAT:
            return Limits(why_none="every resample gives the same value")
    else:
        units = groups if one.units is None else one.units
        ends = limits(one.method, one.value, one.resampled, one.deleted, units, level, one.calibrating, one.minimum_standard_error)
    ends = ends if ends.why_none else clip_to_bounds(ends, one.value, one.bounds)
    if ends.why_none:
        return ends
    low, high = round_result(ends.low), round_result(ends.high)
    return Limits(low, high) if low < high else Limits(why_none="every resample gives the same value")


def _macro_average_interval(one: Measured, level: float) -> Limits:
    """Return the interval of a macro average from its slices'; none if a slice has none."""
    estimates = []
    for part in one.averaged:
        groups = part.groups or 0
        ends = _interval(part, level, groups)
        if ends.why_none:
            return Limits(why_none=f"{part.slice_of_macro}: {ends.why_none}")
        estimates.append(ValueEstimate(part.value, ends, freedom_of(part, groups), standard_error(part.resampled, groups)))
    ends = macro_limits(estimates, level, correlations([part.resampled for part in one.averaged]), freedom_of(one, one.groups or 0))
    ends = ends if ends.why_none else clip_to_bounds(ends, one.value, one.bounds)
    return ends if ends.why_none else Limits(round_result(ends.low), round_result(ends.high))


def freedom_of(one: Measured, groups: int) -> float:
    """Return a value's degrees of freedom for t, at least 1; `groups` replaces missing units."""
    freedom = degrees_of_freedom(one.value, one.deleted, groups if one.units is None else one.units, False)
    return max(1.0, freedom if one.calibrating is None else freedom + one.calibrating - 1)


def _widen_interval(one: Measured, fixed: Limits, level: float, groups: int) -> Limits:
    """Return the interval `fixed` of one fit, widened by the variance between fits."""
    assert one.given is not None and one.calibrating is not None
    reach = critical(level, freedom_of(one, groups)) * standard_error(one.resampled - one.given, one.calibrating)
    return Limits(one.value - math.hypot(one.value - fixed.low, reach), one.value + math.hypot(fixed.high - one.value, reach))


def value_columns(measured: Measured, ends: Limits, level: float) -> dict[str, Any]:
    """Return value, interval, counts and reasons as a score row's columns, by name."""
    why = measured.why or measured.why_unscored
    value = {"value": or_null(measured.value), "low": or_null(ends.low), "high": or_null(ends.high)}
    return value | {"n": measured.n, "n_unscored": measured.n_unscored, "why": why or None} | interval_columns(measured, ends, level)


def interval_columns(measured: Measured, ends: Limits, level: float) -> dict[str, Any]:
    """Return a score row's columns on interval method, groups, null test, chance and others."""
    printed = not np.isnan(ends.low)
    fixed = Limits()
    if measured.given is not None and printed:
        fixed = _interval(_at_threshold(measured), level, measured.groups or 0)
    enough = measured.null_test is not None and not np.isnan(measured.value) and (measured.groups or 0) >= MIN_GROUPS
    p_null, null = measured.null_test() if measured.null_test is not None and enough else (None, None)
    return {
        "n_groups": measured.groups,
        "interval": measured.method if printed else None,
        "level": level if printed else None,
        "n_resamples": len(measured.resampled),
        "n_undefined_resamples": measured.undefined,
        "why_no_interval": ends.why_none or None,
        "low_at_threshold": None if np.isnan(fixed.low) else fixed.low,
        "high_at_threshold": None if np.isnan(fixed.high) else fixed.high,
        "target": measured.band.target if measured.band else None,
        "band_low": measured.band.low if measured.band else None,
        "band_high": measured.band.high if measured.band else None,
        "promise": measured.band.promise if measured.band else None,
        "p_null": p_null,
        "null": null,
        "chance": or_null(measured.chance),
        "scored_share": or_null(measured.scored_share),
        "value_if_wrong": or_null(measured.if_unread[0]),
        "value_if_right": or_null(measured.if_unread[1]),
    }


def _at_threshold(one: Measured) -> Measured:
    """Return a copy whose resamples draw test rows alone, at the sample's own threshold."""
    assert one.given is not None
    fixed = copy(one)
    fixed.resampled, fixed.calibrating, fixed.averaged = one.given, None, [_at_threshold(part) for part in one.averaged]
    return fixed


def _why_none(one: Measured, groups: int) -> str:
    if one.why_no_interval:
        return one.why_no_interval
    if groups < MIN_GROUPS:
        return f"{groups} scored group{'s' * (groups != 1)}: an interval needs {MIN_GROUPS}"
    if one.calibrating is not None and one.calibrating < MIN_GROUPS:
        return f"{one.calibrating} groups that calibrate: an interval needs {MIN_GROUPS}"
    if not len(one.resampled) and not one.unread:
        return "no resamples"
    undefined = int(np.isnan(one.resampled).sum())
    if 2 * undefined > len(one.resampled):
        return f"undefined in {undefined} of {len(one.resampled)} resamples"
    if one.rare:
        return one.rare
    if one.units is not None and one.units < MIN_GROUPS:
        return f"effective number of groups {one.units:.1f}: an interval needs {MIN_GROUPS}"
    return "undefined if some groups are left out" if np.isnan(one.deleted).any() else ""
