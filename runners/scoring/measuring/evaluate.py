"""Metrics on one cell and slice: their values, their bootstrap intervals, and how many rows they are over.

How often a metric is evaluated follows from the columns it reads; see `Metric` in `registry/plugins/protocols.py`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins import columns
from qualm.registry.plugins.column_names import CODE_OF, GROUP_OF, MARKED_BY, RATED_BY, SET_COLUMNS
from qualm.registry.sample import ALL
from qualm.runners.contracts.grouped_weights import number_groups
from qualm.runners.contracts.metrics import missing_rows
from qualm.runners.contracts.returned import call_plugin, check_array
from qualm.runners.data.aligned import Floats
from qualm.runners.scoring.bootstrap import RecordedSums, Recorder
from qualm.runners.scoring.calibration.conformal_draws import Redraw
from qualm.runners.scoring.calibration.drawing import FirstResamples
from qualm.runners.scoring.calibration.fits import Recalibration
from qualm.runners.scoring.cells import BOUNDS_OF_UNREAD, IN_WORDS, LABELS, OF_DATA, OF_REFERENCE, PAIRED_UNCERTAINTY, Cell
from qualm.runners.scoring.limits import MIN_GROUPS, effective_units
from qualm.runners.scoring.measuring.labels import SHARE
from qualm.runners.scoring.measuring.measured import Measured, MetricTask, Slice, mean_of
from qualm.runners.scoring.measuring.metrics import Metric, bounds_of, chance_of
from qualm.runners.scoring.measuring.resampling import resample, resample_at_own_threshold
from qualm.runners.scoring.measuring.selection import RowSelection, ScoredRows, has_all
from qualm.runners.scoring.unscored import STATED_SHARE, why_column_missing, why_no_rows, why_no_value, why_unscored

MEAN = "mean"
"""Stands for the mean over a setting's scores in a metric's label."""
OF_SETTING = ("is_calibration", *sorted(SET_COLUMNS), "uncertainty", *sorted(PAIRED_UNCERTAINTY))
"""Columns that a cell has several of, by setting, score and estimator."""
ROWS_TOGETHER = 16_384
"""Rows of several settings that a metric is given at once."""
NEVER_EMPTY = "never_empty"
"""The column, for functions `bounds`, that is 1 where a row's prediction set has an option whatever the threshold."""


def evaluate(metrics: Sequence[Metric], cell: Cell, part: Slice, every: bool = False) -> list[tuple[str, Measured]]:
    """Evaluate and resample the metrics that apply; return (label, Measured) of each label.

    No value depends on which other metrics are asked for, not even in its last bit. With `every`, values are also resampled of which
    neither an interval nor a ranking reads resamples.
    """
    tasks, labels = tasks_of(metrics, cell, part)
    by_draws: dict[tuple[int, bool], list[MetricTask]] = {}
    for task in tasks if part.bootstrap.times else ():
        times, jackknife = (part.bootstrap.times, True) if every else _draws_needed(task, part)
        task.measured.unread = bool(task.measured.n) and not times
        if task.measured.n and times:
            by_draws.setdefault((times, jackknife), []).append(task)
    for (times, jackknife), of in by_draws.items():
        is_all = (times, jackknife) == (part.bootstrap.times, True)
        resamples = part.bootstrap if is_all else FirstResamples(part.bootstrap, times, jackknife)
        resample(of, resamples)
        resample_at_own_threshold([task for task in of if task.redraw is not None or task.refit is not None], resamples)
    return [(label, mean_of([task.measured for task in of])) for label, of in labels]


def _draws_needed(task: MetricTask, part: Slice) -> tuple[int, bool]:
    """Return (number of resamples that a value needs, whether it needs a jackknife)."""
    everything, nothing = (part.bootstrap.times, True), (0, False)
    if task.metric.why_no_interval:
        # By values of estimators the stability of their ranks is judged.
        return everything if "uncertainty" in task.metric.reads else nothing
    is_averaged = part.label == ALL or part.macro
    if is_averaged or task.metric.own_interval is None or task.redraw is not None or task.refit is not None:
        return everything
    if (raw := task.measured.recalibrated) is None:
        return nothing if "compared_by" in task.metric.plugin.declares else everything
    # Read by comparisons with calibrators alone, which are fitted anew in so many resamples.
    return min(raw.refits, part.bootstrap.times), task.metric.null_test is None


def tasks_of(metrics: Sequence[Metric], cell: Cell, part: Slice) -> tuple[list[MetricTask], list[tuple[str, list[MetricTask]]]]:
    """Return (the metrics' tasks, not yet resampled; (label, tasks it averages) pairs)."""
    labels: list[tuple[str, list[MetricTask]]] = []
    selection = RowSelection(cell, part)
    for metric in metrics:
        if not cell.applies(frozenset(metric.reads)):
            continue
        of_label: dict[str, list[Readings]] = {}
        for name, rows in selection.universes(metric):
            for label, some in _readings_on(metric, selection, rows, name):
                of_label.setdefault(label, []).extend(some)
        distinct = list({id(one): one for of in of_label.values() for one in of}.values())
        tasks = {id(one): task for one, task in zip(distinct, _tasks(selection, metric, distinct), strict=True)}
        labels += [(label, [tasks[id(one)] for one in of]) for label, of in of_label.items()]
    return list({id(task): task for _, of in labels for task in of}.values()), labels


@dataclass(eq=False)
class Readings:
    """Columns and rows of one cell on which a metric is evaluated once."""

    columns: dict[str, Floats]
    rows: ScoredRows
    slice_of_macro: str
    redraw: Redraw | None = None
    recalibration: Recalibration | None = None


def _readings_on(
    metric: Metric, selection: RowSelection, universe: NDArray[np.int64], slice_of_macro: str
) -> Iterator[tuple[str, list[Readings]]]:
    """Yield (label, Readings that its value averages over) per label of a metric."""
    reads, coded = frozenset(metric.reads), selection.coded(metric)
    telling = [c for c in OF_SETTING if c in reads and (c != "is_calibration" or metric.of_test_rows)]
    alike: dict[tuple[Any, ...], Readings] = {}  # settings whose columns are equal have one value
    for name, sets, names_of_each, redraws in _columns_for(selection, reads, metric.of_test_rows):
        of_setting = []
        for each, redraw in zip(sets, redraws, strict=True):
            same = (id(redraw), *(selection.content(each[c]) for c in telling))
            if same not in alike:
                read = each | coded
                alike[same] = Readings(read, selection.rows(metric, read, universe), slice_of_macro, redraw)
            of_setting.append(alike[same])
        for label, one in zip(names_of_each, of_setting, strict=False):
            yield f"{metric.label}[{label}]", [one]
        yield f"{metric.label}[{name}]" if name else metric.label, of_setting
    if columns.is_recalibrated(metric.reads, metric.args):
        for of in selection.cell.recalibrations:
            read = selection.cell.columns | {"is_calibration": selection.nothing_calibrates} | coded | of.columns
            rows = selection.rows(metric, read, selection.evaluated(universe, of))
            yield f"{metric.label}[{of.label}]", [Readings(read, rows, slice_of_macro, recalibration=of)]


def _columns_for(
    selection: RowSelection, reads: frozenset[str], of_test_rows: bool
) -> Iterator[tuple[str, list[dict[str, Floats]], list[str], list[Redraw | None]]]:
    """Yield (name, [columns], labels, [Redraw or None]) per conformal setting and estimator.

    The lists have an item per conformal score, with labels SETTING/ESTIMATOR/SCORE; `name` labels their mean. For a metric that reads
    no prediction sets they have one item, and the labels are empty.

    A metric without sets is over all rows under its own label, whatever conformal settings there are, and over the test rows of each.
    """
    cell, part = selection.cell, selection.part
    settings = dict(cell.settings) if "is_calibration" in reads or reads & SET_COLUMNS else {}
    if part.label != ALL or not reads & SET_COLUMNS:  # the study of calibration shares draws the sets of whole datasets
        settings = {name: of for name, of in settings.items() if not name.startswith(SHARE)} or settings
    estimators: dict[str, dict[str, Floats]] = {"": {}}
    if reads & PAIRED_UNCERTAINTY:
        paired = ((name, cell.uncertainties[name], cell.clean_uncertainties[name]) for name in cell.estimators_of_both)
        estimators = {name: _paired_uncertainty(values, clean) for name, values, clean in paired}
    elif "uncertainty" in reads:
        estimators = {name: {"uncertainty": values} for name, values in cell.uncertainties.items()}
    everything = [""] if of_test_rows and not reads & SET_COLUMNS else []
    for setting in [*everything, *settings] or [""]:
        fixed = cell.columns | {"is_calibration": settings[setting].is_calibration if setting else selection.nothing_calibrates}
        for estimator, values in estimators.items():
            base = fixed | values
            name = "/".join(x for x in (setting, estimator) if x)
            if not reads & SET_COLUMNS:
                yield name, [base], [], [None]
                continue
            scores = settings[setting].scores
            redraws = [settings[setting].redraws.get(score) for score in scores]
            yield f"{name}/{MEAN}", [base | of for of in scores.values()], [f"{name}/{score}" for score in scores], redraws


def _paired_uncertainty(values: Floats, clean: Floats) -> dict[str, Floats]:
    """Return an estimator's uncertainty, the clean one and their difference, by column name."""
    with np.errstate(invalid="ignore"):
        change = values - clean
    return {"uncertainty": values, "clean_uncertainty": clean, "uncertainty_change": np.where(np.isfinite(change), change, np.nan)}


def why_absent(metric: Metric, cell: Cell) -> str:
    """Return why a metric of the spec has no value for this cell."""
    n_options = cell.samples.n_options
    why = cell.why_unscored or (cell.why_unlabelled if set(LABELS) & set(metric.reads) else "")
    return why or why_column_missing(
        metric.reads, cell.available_columns(frozenset(metric.reads)), bool((n_options > 0).all()), IN_WORDS in cell.columns
    )


def _tasks(selection: RowSelection, metric: Metric, readings: Sequence[Readings]) -> Iterator[MetricTask]:
    """Yield a task per set of columns and rows, in order; point estimate, no resamples."""
    estimates: dict[int, tuple[float, RecordedSums]] = {}
    together: list[Readings] = []
    for one in readings:
        if not one.rows.n:
            continue
        if together and (not metric.is_row_by_row or sum(len(of.rows.place) for of in together) + len(one.rows.place) > ROWS_TOGETHER):
            estimates |= _estimates(metric, together)
            together = []
        together.append(one)
    estimates |= _estimates(metric, together)
    for one in readings:
        yield _task(selection, metric, one, *estimates.get(id(one), (math.nan, RecordedSums())))


def _estimates(metric: Metric, readings: Sequence[Readings]) -> dict[int, tuple[float, RecordedSums]]:
    """Evaluate all readings in one call; return {id(readings): (value, weighted sums used)}."""
    if not readings:
        return {}
    by_column = ([one.rows.columns[name] for one in readings] for name in metric.reads)
    arrays = [of[0] if len(of) == 1 else np.concatenate(of) for of in by_column]
    weights = Recorder(*(len(one.rows.place) for one in readings))
    values = _values(metric, arrays, weights).tolist()
    return {id(one): of for one, of in zip(readings, zip(values, weights.recorded(), strict=True), strict=True)}


def _task(selection: RowSelection, metric: Metric, readings: Readings, value: float, recorded: RecordedSums) -> MetricTask:
    """Return a task with everything known of its value except resamples."""
    cell, part, rows, redraw = selection.cell, selection.part, readings.rows, readings.redraw
    n, arrays = rows.n, [rows.columns[name] for name in metric.reads]
    left = ~rows.scored & rows.counted
    unscored = int(left.sum())
    many = unscored and unscored >= STATED_SHARE * (n + unscored)
    left_out = why_unscored(cell.reasons, metric.reads, {k: v[left] for k, v in rows.taken.items()}, rows.universe[left]) if many else ""
    why = "" if n else cell.why_unscored or left_out or why_no_rows(metric.reads, metric.over, metric.of_test_rows, rows.n_questions)
    if n and math.isnan(value):
        columns_read = {name: rows.columns[name][rows.is_counted] for name in metric.reads}
        why = (metric.why(*arrays, **metric.args) if metric.why else "") or why_no_value(metric.function, columns_read)
    measured = Measured(value, np.empty(0), n, unscored, why, left_out, metric.interval, why_no_interval=metric.why_no_interval)
    missing = left & ~_cannot_be_scored(cell, rows.taken, rows.universe) if unscored else left
    if n or missing.any():
        measured.scored_share = n / (n + int(missing.sum()))
    if metric.rating and missing.any() and cell.unread == BOUNDS_OF_UNREAD:
        measured.if_unread = _value_if(metric, rows.taken, missing, 0.0), _value_if(metric, rows.taken, missing, 1.0)
    if n:
        own = readings.columns | ({} if redraw is None else {NEVER_EMPTY: redraw.never_empty})
        measured.bounds = bounds_of(metric, lambda name: own[name][rows.universe][rows.scored] if name in own else None)
        measured.chance = chance_of(metric, lambda name: own[name][rows.universe][rows.scored & rows.counted] if name in own else None)
    measured.slice_of_macro, measured.recalibrated = readings.slice_of_macro, readings.recalibration
    _fill_in_groups(measured, metric, arrays, recorded, rows, cell.own_intervals)
    if redraw is not None and redraw.lacking and (many or not n):
        measured.why_unscored = redraw.lacking
    if redraw is not None and n:
        measured.calibrating = redraw.calibrating(part.bootstrap.whole)
        measured.why_no_interval = measured.why_no_interval or redraw.why_every_option
        if "target" in metric.plugin.declares and "covered" in rows.columns:
            group = number_groups(rows.group[rows.is_counted])[0]
            measured.band = redraw.band(rows.universe[rows.scored & rows.counted], rows.columns["covered"][rows.is_counted], group)
    task = MetricTask(metric, arrays, rows.place, recorded, measured, rows.of_cell, rows.group, rows.is_counted, redraw)
    if (of := readings.recalibration) is not None:
        if not n:
            measured.why = of.why or measured.why
        elif of.parts:
            task.refit = of
            measured.calibrating = of.groups(part.bootstrap)
    return task


def _values(metric: Metric, arrays: Sequence[Floats], weights: Recorder) -> Floats:
    returned = call_plugin(metric.plugin, f"metric '{metric.label}'", lambda: metric.function(*arrays, weights, **metric.args))
    return check_array(metric.plugin, f"metric '{metric.label}', one value per resample", returned, (weights.shape[0],))


def _cannot_be_scored(cell: Cell, taken: Mapping[str, Floats], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return (rows,) True where the data or the spec, not the reply, leave a row unscored."""
    names = OF_DATA | (OF_REFERENCE if cell.why_unscored else frozenset())
    prefixes = (GROUP_OF, CODE_OF, *((RATED_BY, MARKED_BY) if cell.why_unscored else ()))
    of_data = [missing_rows(values) for name, values in taken.items() if name in names or name.startswith(prefixes)]
    by_design = np.zeros(len(rows), dtype=bool) if cell.reasons is None else cell.reasons.by_design(rows)
    return np.asarray(np.any([by_design, *of_data], axis=0))


def _value_if(metric: Metric, taken: Mapping[str, Floats], missing: NDArray[np.bool_], rating: float) -> float:
    """Return the metric's value if all rows `missing` had `rating`; NaN if no row is scored."""
    filled = dict(taken) | {metric.rating: np.where(missing & np.isnan(taken[metric.rating]), rating, taken[metric.rating])}
    if {"pred_is_idk", "gt_is_idk"} <= filled.keys():
        declines = filled["gt_is_idk"] if rating else 1 - filled["gt_is_idk"]
        filled["pred_is_idk"] = np.where(missing, declines, filled["pred_is_idk"])
    scored = has_all(filled)
    if not scored.any():
        return math.nan
    return float(_values(metric, [filled[name][scored] for name in metric.reads], Recorder(int(scored.sum())))[0])


def _own_interval(
    metric: Metric, arrays: list[Floats], place: NDArray[np.int64], cached: dict[Any, tuple[float, float] | str], level: float
) -> tuple[float, float] | str:
    """Return the metric's own (low, high) interval, or why it has none; uses `cached`."""
    digest = blake2b(place.tobytes())
    for column in arrays:
        digest.update(column.tobytes())
    key = metric.label, level, digest.digest()
    if key not in cached:
        assert metric.own_interval is not None
        cached[key] = metric.own_interval(*arrays, place, level, **metric.args)
    return cached[key]


def _fill_in_groups(
    measured: Measured,
    metric: Metric,
    arrays: list[Floats],
    recorded: RecordedSums,
    rows: ScoredRows,
    known: dict[Any, tuple[float, float] | str],
) -> None:
    """Set in `measured` the groups behind the value, and the metric's own interval and tests."""
    group, counted = rows.group, rows.is_counted
    measured.group_codes = rows.counted_groups
    measured.groups = len(rows.counted_groups)
    if metric.own_interval is not None:
        measured.own_interval = cache(partial(_own_interval, metric, arrays, rows.group_places, known))
    if metric.null_test is not None:
        measured.null_test = cache(partial(metric.null_test, *arrays, group, **metric.args))
    if metric.minimum_standard_error is not None:
        measured.minimum_standard_error = partial(metric.minimum_standard_error, *arrays, **metric.args)
    if np.isnan(measured.value):
        return
    enter = counted
    if metric.enters is not None:
        enter = counted & (metric.enters(*arrays, **metric.args) > 0)
    elif recorded.only_sums and recorded.is_summed is not None:
        # A row of which nothing is summed is in neither part of a ratio.
        enter = counted & recorded.is_summed
    parts, what = [enter], "enter"
    if metric.classes is not None and metric.own_interval is None:
        of_one = metric.classes(*arrays, **metric.args) > 0
        parts, what = [enter & of_one, enter & ~of_one], "have a row of the rarer class"
    if metric.types is not None:
        types = metric.types(*arrays, **metric.args)
        parts, what = [enter & (types == name) for name in np.unique(types[enter])], "have questions of the rarest type"
    if len(parts) == 1 and (parts[0] == counted).all():
        groups, measured.units = measured.groups, rows.units
    else:
        groups = min(len(np.unique(group[of])) for of in parts)
        measured.units = min(effective_units(group[of]) for of in parts)
    if groups < MIN_GROUPS <= measured.groups:
        measured.rare = f"{groups} of {measured.groups:,} groups {what}: an interval needs {MIN_GROUPS}"
