"""Values of metrics in resamples: thresholds and fits are made anew where a metric rests on such."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.contracts.returned import check_array
from qualm.runners.data.aligned import Floats
from qualm.runners.scoring.bootstrap import Resamples, SideBySide, StackedTasks, SubsetResamples, join_counts, pair_with_weights
from qualm.runners.scoring.calibration.conformal_draws import Redraw, nodes
from qualm.runners.scoring.measuring.at_thresholds import resample_at_thresholds
from qualm.runners.scoring.measuring.measured import MetricTask

CACHED = 65_536
"""Resampled rows that a metric of ranks is given at once."""
TOGETHER = 1_000_000
"""Numbers that a metric sums at once, of several tasks or of resamples which have columns of their own."""


def resample(tasks: Sequence[MetricTask], bootstrap: Resamples) -> None:
    """Set `measured.resampled` of tasks, and `deleted` unless thresholds or fits are redrawn.

    Conformal sets use redrawn thresholds, recalibrated confidences redrawn fits.
    """
    # Of sets and fits each resample has columns of its own.
    _resample([task for task in tasks if task.redraw is None and task.refit is None], bootstrap)
    refitted: dict[int, list[MetricTask]] = {}
    for task in tasks:
        if task.refit is not None:
            refitted.setdefault(id(task.refit), []).append(task)
    for of in refitted.values():
        refit = of[0].refit
        assert refit is not None
        some = refit.redrawn_in(bootstrap)
        _resample_with_own_columns(of, refit.each(some.whole), some)
    resample_conformal([task for task in tasks if task.redraw is not None], bootstrap)


def resample_conformal(tasks: Sequence[MetricTask], bootstrap: Resamples) -> None:
    """Set `measured.resampled` of conformal tasks, each resample by its redrawn threshold."""
    by_sums = []
    for task in tasks:
        assert task.redraw is not None
        parts = task.redraw.parts
        if task.sums_row_by_row and not task.recorded.in_bins and (parts is None or not parts.of_labels):
            by_sums.append(task)
        elif parts is not None:
            _resample_with_own_columns([task], task.redraw.each(bootstrap.whole), bootstrap)
        else:
            _resample_by_threshold(task, task.redraw, bootstrap)
    for of, resamples in _by_slice(by_sums, bootstrap):
        resample_at_thresholds(of, resamples)


def resample_at_own_threshold(tasks: Sequence[MetricTask], bootstrap: Resamples) -> None:
    """Fill in each task's `measured.given`: its values in resamples of the test rows alone."""
    by_times: dict[int, tuple[Resamples, list[MetricTask]]] = {}
    for task in tasks:
        resamples = bootstrap if task.refit is None else task.refit.redrawn_in(bootstrap)
        by_times.setdefault(resamples.times, (resamples, []))[1].append(task)
    for resamples, of in by_times.values():
        redrawn = [task.measured.resampled for task in of]  # `_resample` writes over it
        _resample(of, resamples)
        for task, kept in zip(of, redrawn, strict=True):
            task.measured.given, task.measured.resampled = task.measured.resampled, kept


def _resample_with_own_columns(tasks: Sequence[MetricTask], columns: Iterator[dict[str, NDArray[Any]]], resamples: Resamples) -> None:
    """Set `measured.resampled` of tasks whose (b, n) columns differ by resample."""
    values = np.full((len(tasks), resamples.times), np.nan)
    start = 0
    for anew, weights in pair_with_weights(columns, resamples):
        end = start + len(weights.counts)
        taken: dict[tuple[int, str], Floats] = {}  # tasks on the same rows share them
        for k, task in enumerate(tasks):
            own = {}
            for name in (name for name in task.metric.reads if name in anew):
                if (key := (id(task.of_cell), name)) not in taken:
                    taken[key] = anew[name][:, task.of_cell].astype(np.float64)
                own[name] = taken[key]
            values[k, start:end] = _values_with_own_columns(task, own, weights.rows(task.rows))
        start = end
    for task, of_task in zip(tasks, values, strict=True):
        task.measured.resampled = of_task


def _values_with_own_columns(task: MetricTask, own: Mapping[str, Floats], weights: Weights) -> Floats:
    """Return (b,) values of a task in resamples with (b, n) columns; NaN if one lacks a value."""
    values = np.full(len(weights.counts), np.nan)
    # A resample without a threshold or a fit has no value at all, rather than one over the rows that happen to have one.
    whole = np.flatnonzero(~np.any([np.isnan(of).any(axis=1) for of in own.values()], axis=0))
    apart = not task.sums_row_by_row
    # One by one where rows depend on each other (ranks): laid side by side, those of different resamples would mix.
    step = 1 if apart else max(1, TOGETHER // max(1, len(task.rows) * task.recorded.width))
    for start in range(0, len(whole), step):
        chosen = whole[start : start + step]
        arrays = [
            own[name][chosen].ravel() if name in own else np.concatenate([of] * len(chosen))
            for name, of in zip(task.metric.reads, task.arrays, strict=True)
        ]
        drawn = Weights(weights.counts[chosen], weights.group)
        values[chosen] = task.metric.function(*arrays, drawn if apart else SideBySide(drawn), **task.metric.args)
    return values


def _resample_by_threshold(task: MetricTask, redraw: Redraw, bootstrap: Resamples) -> None:
    """Set `measured.resampled` of a task by one call of its metric per distinct threshold."""
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
            drawn = Weights(block.counts[chosen], block.group[task.rows])
            values[start + chosen] = task.metric.function(*arrays, drawn, **task.metric.args)
        start += len(here)
    task.measured.resampled = values


def _by_slice(tasks: Sequence[MetricTask], bootstrap: Resamples) -> Iterator[tuple[list[MetricTask], Resamples]]:
    """Yield (tasks, resamples) per slice of a macro average, or once for all tasks."""
    slices: dict[str, list[MetricTask]] = {}
    for task in tasks:
        slices.setdefault(task.measured.slice_of_macro, []).append(task)
    for of in slices.values():
        yield of, SubsetResamples(bootstrap, np.unique(np.concatenate([task.rows for task in of]))) if len(slices) > 1 else bootstrap


def _resample(tasks: Sequence[MetricTask], bootstrap: Resamples) -> None:
    """Set `measured.resampled` and `deleted` of each task, slice by slice."""
    for of, resamples in _by_slice(tasks, bootstrap):
        _resample_slice(of, resamples)


def _resample_slice(tasks: Sequence[MetricTask], bootstrap: Resamples) -> None:
    """Set `measured.resampled` and `deleted` of tasks on one slice."""
    values: list[list[Floats]] = [[] for _ in tasks]

    def draws() -> Iterator[Weights]:
        return chain(bootstrap.blocks(), bootstrap.deletions())

    summing = [k for k, task in enumerate(tasks) if task.recorded.only_sums]
    for counts in join_counts(draws()) if summing else ():
        for together in _stacks(summing, tasks, len(counts)):
            weights = StackedTasks(counts, [bootstrap.groups_of(tasks[k].rows) for k in together])
            for k, drawn in zip(together, _values(tasks, together, weights).reshape(len(counts), -1).T, strict=True):
                values[k].append(drawn)
    ranking = [k for k, task in enumerate(tasks) if not task.recorded.only_sums]
    for block in draws() if ranking else ():
        for k in ranking:
            values[k] += [_values(tasks, [k], part) for part in _split_resamples(block.rows(tasks[k].rows), len(tasks[k].rows))]
    for task, of_task in zip(tasks, values, strict=True):
        task.measured.resampled, task.measured.deleted = np.split(np.concatenate([*of_task, np.empty(0)]), [bootstrap.times])


def _values(tasks: Sequence[MetricTask], together: Sequence[int], weights: Weights) -> Floats:
    """Return (B * tasks,) values of `tasks` numbered in `together`, tasks varying fastest."""
    metric, columns = tasks[together[0]].metric, zip(*(tasks[k].arrays for k in together), strict=True)
    arrays = [of[0] if len(of) == 1 else np.concatenate(of) for of in columns]
    returned = metric.function(*arrays, weights, **metric.args)
    return check_array(metric.plugin, f"metric '{metric.label}', one value per resample", returned, (weights.shape[0],))


def _stacks(summing: Sequence[int], tasks: Sequence[MetricTask], times: int) -> Iterator[list[int]]:
    """Yield lists of indices of tasks that one call of their metric can evaluate."""
    stacks: dict[tuple[Any, ...], list[int]] = {}
    for k in summing:
        task = tasks[k]
        alike = tuple(column.shape[1:] for column in task.arrays) if task.sums_row_by_row else k
        stacks.setdefault((task.metric.label, alike), []).append(k)
    for of in stacks.values():
        size, together = 0, list[int]()
        for k in of:
            numbers_of_task = max(times, len(tasks[k].rows)) * max(1, tasks[k].recorded.width)
            if together and size + numbers_of_task > TOGETHER:
                yield together
                size, together = 0, []
            together, size = [*together, k], size + numbers_of_task
        yield together


def _split_resamples(weights: Weights, n: int) -> Iterator[Weights]:
    """Yield the weights in order, a few resamples at a time, to fit the CPU cache."""
    step = max(1, CACHED // max(1, n))
    for start in range(0, len(weights.counts), step):
        yield Weights(weights.counts[start : start + step], weights.group)
