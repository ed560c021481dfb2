"""Values of metrics in resamples: thresholds and fits are made anew where a metric rests on such."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.contracts.returned import numbers
from qualm.runners.data.aligned import Floats
from qualm.runners.scoring.bootstrap import Replay, Resamples, SideBySide, SubsetResamples, beside_weights
from qualm.runners.scoring.conformal.draws import Redraw, nodes
from qualm.runners.scoring.measuring.at_thresholds import at_thresholds
from qualm.runners.scoring.measuring.measured import MetricTask

CACHED = 65_536
"""Resampled rows that a metric of ranks is given at once."""
TOGETHER = 1_000_000
"""Numbers that a metric sums at once of resamples which have columns of their own."""


def resample(tasks: Sequence[MetricTask], bootstrap: Resamples) -> None:
    """Fill in every task's values in all resamples; those of conformal sets at thresholds, and of recalibrated confidences by fits, that
    are drawn anew."""
    # Ordinary metrics share one matrix product. Sets and fits cannot: there each resample has columns of its own.
    _resample([task for task in tasks if task.redraw is None and task.refit is None], bootstrap)
    refitted: dict[int, list[MetricTask]] = {}
    for task in tasks:
        if task.refit is not None:
            refitted.setdefault(id(task.refit), []).append(task)
    for of in refitted.values():
        _refit(of, bootstrap)
    recalibrate([task for task in tasks if task.redraw is not None], bootstrap)


def recalibrate(tasks: Sequence[MetricTask], bootstrap: Resamples) -> None:
    """Fill in the values of tasks of conformal sets, each resample's with the sets that its own threshold gives."""
    by_sums = []
    for task in tasks:
        assert task.redraw is not None
        parts = task.redraw.parts
        if task.sums_row_by_row and (parts is None or not parts.of_labels):
            by_sums.append(task)
        elif parts is not None:
            _each_anew([task], task.redraw.each(bootstrap.whole), bootstrap)
        else:
            _recalibrate(task, task.redraw, bootstrap)
    for of, resamples in _by_slice(by_sums, bootstrap):
        at_thresholds(of, resamples)


def resample_at_own_threshold(tasks: Sequence[MetricTask], bootstrap: Resamples) -> None:
    """Fill in every task's values where sets and fits stay as they are and test rows alone are drawn."""
    by_times: dict[int, tuple[Resamples, list[MetricTask]]] = {}
    for task in tasks:
        resamples = bootstrap if task.refit is None else task.refit.redrawn_in(bootstrap)
        by_times.setdefault(resamples.times, (resamples, []))[1].append(task)
    for resamples, of in by_times.values():
        # Copies, since `_resample` writes into `measured`, which holds the values at redrawn thresholds already.
        fixed = [replace(task, measured=replace(task.measured)) for task in of]
        _resample(fixed, resamples)
        for task, other in zip(of, fixed, strict=True):
            task.measured.given, task.measured.deleted = other.measured.resampled, other.measured.deleted


def _refit(tasks: Sequence[MetricTask], bootstrap: Resamples) -> None:
    """Fill in the values of tasks of one recalibrated confidence, each by the fit of the resample's own calibration rows."""
    refit = tasks[0].refit
    assert refit is not None
    some = refit.redrawn_in(bootstrap)
    _each_anew(tasks, refit.each(some.whole), some)


def _each_anew(tasks: Sequence[MetricTask], columns: Iterator[dict[str, NDArray[Any]]], resamples: Resamples) -> None:
    """Fill in the values of tasks of which each resample has columns of its own; these come (b, n), some resamples at a time."""
    values = np.full((len(tasks), resamples.times), np.nan)
    start = 0
    for anew, weights in beside_weights(columns, resamples):
        end = start + len(weights.counts)
        for k, task in enumerate(tasks):
            values[k, start:end] = _of_own_columns(task, anew, weights.rows(task.rows))
        start = end
    for task, of_task in zip(tasks, values, strict=True):
        task.measured.resampled = of_task


def _of_own_columns(task: MetricTask, anew: Mapping[str, NDArray[Any]], weights: Weights) -> Floats:
    """(b,) values in resamples that each have columns of their own; NaN where one of these lacks a value."""
    own = {name: anew[name][:, task.of_cell].astype(np.float64) for name in task.metric.reads if name in anew}
    values = np.full(len(weights.counts), np.nan)
    # A resample without a threshold or a fit has no value at all, rather than one over the rows that happen to have one.
    whole = np.flatnonzero(~np.any([np.isnan(of).any(axis=1) for of in own.values()], axis=0))
    apart = not task.sums_row_by_row
    # One by one where rows depend on each other (ranks): laid side by side, those of different resamples would mix.
    step = 1 if apart else max(1, TOGETHER // max(1, len(task.rows) * task.weights.width))
    for start in range(0, len(whole), step):
        chosen = whole[start : start + step]
        arrays = [
            own[name][chosen].ravel() if name in own else np.concatenate([of] * len(chosen))
            for name, of in zip(task.metric.reads, task.arrays, strict=True)
        ]
        drawn = Weights(weights.counts[chosen], weights.group)
        values[chosen] = task.metric.function(*arrays, drawn if apart else SideBySide(drawn), **task.metric.args)
    return values


def _recalibrate(task: MetricTask, redraw: Redraw, bootstrap: Resamples) -> None:
    """Fill in a task's values with a call of its metric for each threshold, whose resamples share their sets."""
    # Thresholds by the whole dataset's resamples: what calibrates may lie outside of the slice.
    limits, which = nodes(redraw.thresholds(bootstrap.whole), redraw.kept)
    sets = [redraw.sets(task.of_cell, limit) for limit in limits]
    values = np.full(bootstrap.times, np.nan)
    start = 0
    for block in bootstrap.blocks():
        here = which[start : start + len(block.counts)]
        for node in np.unique(here):
            chosen = np.flatnonzero(here == node)
            arrays = [sets[node].get(name, of) for name, of in zip(task.metric.reads, task.arrays, strict=True)]
            values[start + chosen] = task.metric.function(
                *arrays, Weights(block.counts[chosen], block.group[task.rows]), **task.metric.args
            )
        start += len(here)
    task.measured.resampled = values


def _by_slice(tasks: Sequence[MetricTask], bootstrap: Resamples) -> Iterator[tuple[list[MetricTask], Resamples]]:
    """Yield the tasks of each slice that a macro average is over, with the resamples of its groups; all tasks where there is no average."""
    slices: dict[str, list[MetricTask]] = {}
    for task in tasks:
        slices.setdefault(task.measured.slice_of_macro, []).append(task)
    for of in slices.values():
        yield of, SubsetResamples(bootstrap, np.unique(np.concatenate([task.rows for task in of]))) if len(slices) > 1 else bootstrap


def _resample(tasks: Sequence[MetricTask], bootstrap: Resamples) -> None:
    """Fill in values of each slice at the sample's own sets, of resamples and of the jackknife."""
    for of, resamples in _by_slice(tasks, bootstrap):
        _resample_slice(of, resamples)


def _resample_slice(tasks: Sequence[MetricTask], bootstrap: Resamples) -> None:
    """Fill in values at the sample's own sets, of resamples and of the jackknife. Equal columns of all tasks are summed once, in one matrix
    product."""
    summing = {k: task for k, task in enumerate(tasks) if task.weights.only_sums}
    most = sum(column.shape[1] for task in summing.values() for column in task.weights.columns)
    sums = np.empty((most, bootstrap.groups))  # rows that are not filled take no memory
    place_of: dict[bytes, int] = {}
    places: dict[int, list[list[int]]] = {}
    for k, task in summing.items():
        of_sample = bootstrap.seen_on(task.rows)
        places[k] = [[_place(row, place_of, sums) for row in of_sample.each_group_sum(each)] for each in task.weights.columns]
    summed = sums[: len(place_of)]
    values: list[list[Floats]] = [[] for _ in tasks]
    for block in chain(bootstrap.blocks(), bootstrap.deletions() if bootstrap.times else ()):
        sums_of_block = summed @ block.counts.T
        for k, task in enumerate(tasks):
            weights = block.rows(task.rows)
            parts = [Replay(weights, [sums_of_block[each].T for each in places[k]])] if k in places else _parts(weights, len(task.rows))
            for part in parts:
                returned = task.metric.function(*task.arrays, part, **task.metric.args)
                values[k].append(
                    numbers(task.metric.plugin, f"metric '{task.metric.label}', one value per resample", returned, (len(part.counts),))
                )
    for task, of_task in zip(tasks, values, strict=True):
        task.measured.resampled, task.measured.deleted = np.split(np.concatenate([*of_task, np.empty(0)]), [bootstrap.times])


def _parts(weights: Weights, n: int) -> Iterator[Weights]:
    """The resamples a few at a time, so that what a metric of ranks makes of them stays in the processor's cache."""
    step = max(1, CACHED // max(1, n))
    for start in range(0, len(weights.counts), step):
        yield Weights(weights.counts[start : start + step], weights.group)


def _place(row: Floats, place_of: dict[bytes, int], distinct: Floats) -> int:
    """The place of a column among the distinct ones, to which it is added where it is new."""
    # By content: metrics of one confidence often sum the very same columns, and a dictionary of the rows would hold them all.
    key = hashlib.sha256(row.tobytes()).digest()
    if key not in place_of:
        distinct[len(place_of)] = row
        place_of[key] = len(place_of)
    return place_of[key]
