"""Paired comparison of two models on the same questions: difference, interval and p-value of every metric.

Each model is measured by itself, on the rows that both are scored on and in the same resamples of whole groups, so that what they share
(easy questions, several questions about one image) cancels out of the differences, resample by resample. A model whose rows are the same
in several pairs is measured once.

The test is Student's t of the difference over its standard error, with the effective number of groups less one as degrees of freedom; the
interval inverts it. It assumes that the two metrics are equal, not that the two models are exchangeable: models of different accuracy or
sharpness may have equal AUROC or calibration (Janssen, 1997; Chung and Romano, 2013, on studentised tests under such nulls).

- The standard error is the larger one of the bootstrap and of the delete-a-group jackknife, which allows for large groups.
- No p-value is below that of exchanging the models in each group, by its normal approximation: if all of ten groups differ alike, their
  standard error is 0, but chance alone does this once in 512 times. The interval is as wide as that says.
- A metric whose estimate is biased by an amount that depends on the model is compared by an unbiased one, which its plugin names
  (`compared_by`): calibration errors by the squared bias-corrected error. Its test is conservative for calibrated models.
- There is no test where a single value has no interval, or below MIN_CLASS_ROWS answers of the rarer class where a metric contrasts two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins import registry
from qualm.runners.contracts.grouped_weights import Floats
from qualm.runners.contracts.metrics import missing_rows
from qualm.runners.runtime.precision import round_result
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.families import Evidence, balanced_spread
from qualm.runners.scoring.limits import (
    BOUNDS,
    FLAT,
    MIN_GROUPS,
    Bounds,
    Limits,
    clip_to_bounds,
    critical,
    degrees_of_freedom,
    difference_bounds,
    effective_units,
    exchange_deviate,
    jackknife_error,
    standard_error,
)
from qualm.runners.scoring.measuring.evaluate import tasks_of
from qualm.runners.scoring.measuring.measured import Measured, MetricTask, Slice, mean_of, or_null
from qualm.runners.scoring.measuring.metrics import Metric, metric_of, read_metrics
from qualm.runners.scoring.measuring.resampling import resample

STUDIED = ("accuracy", "set_size", "uncertainty_aware_accuracy")
"""Metrics of the studies of size and chat tuning, by which their pairs are tested over whole datasets."""
MIN_CLASS_ROWS = 10
"""Least number of answers of the rarer class (right or wrong, answerable or not) of each model."""
NUMBERS = ("value_a", "value_b", "difference", "low", "high", "p", "margin", "p_equivalent", "p_not_worse")
"""Fields of a Test that are columns of COMPARISONS."""


@dataclass(frozen=True)
class Test:
    """Result of one paired test of b against a: one metric, dataset and slice."""

    metric: str
    value_a: float
    value_b: float
    low: float
    high: float
    p: float
    n: int
    higher_is_better: bool | None
    why: str = ""
    """Reason why there is no p-value."""
    compared_by: str = ""
    """Unbiased quantity whose values these are, where the metric's own difference is biased."""
    p_equivalent: float = np.nan
    """p-value of two one-sided tests that the difference lies within the margin (Schuirmann, 1987)."""
    p_not_worse: float = np.nan
    """One-sided: b is worse than a by less than the margin."""
    margin: float = np.nan
    share_a: float = np.nan
    """Scored share of a by itself; the test is over the rows that both are scored on."""
    share_b: float = np.nan
    evidence: Evidence = field(default=Evidence(np.nan), repr=False, compare=False)

    @property
    def difference(self) -> float:
        return self.value_b - self.value_a

    @property
    def row(self) -> dict[str, Any]:
        """Return the test as columns of COMPARISONS by name; undefined numbers are None."""
        shares = {"scored_share_a": or_null(self.share_a), "scored_share_b": or_null(self.share_b)}
        about = {"n": self.n, "higher_is_better": self.higher_is_better, "why": self.why or None, "compared_by": self.compared_by or None}
        return {"metric": self.metric} | {name: or_null(getattr(self, name)) for name in NUMBERS} | about | shares


def compare(
    metrics: Sequence[Metric], a: Cell, b: Cell, data_slice: Slice, level: float, margins: float | Mapping[str, float] | None = None
) -> list[Test]:
    """Return a test of b against a by each metric that applies to both, on common rows.

    `margins` is the largest difference that does not matter, of all shares and correlations or by metric label.
    """
    by = [_tested_metric(metric) for metric in metrics]
    return compare_sides(metrics, Side(by, a, data_slice), Side(by, b, data_slice), level, margins)


def compare_sides(
    metrics: Sequence[Metric], a: Side, b: Side, level: float, margins: float | Mapping[str, float] | None = None
) -> list[Test]:
    """Return the tests of b against a on one slice, reusing values measured on the same rows."""
    of_label = {label: metric_of(label, metrics) for label in a.tasks if label in b.tasks}
    alike = _scores(a.cell) == _scores(b.cell)
    equal = [label for label in of_label if alike and all(map(_are_over_same_rows, a.tasks[label], b.tasks[label]))]
    names = {of.label for label, of in of_label.items() if label not in equal}
    unequal = [metric for metric in a.metrics if metric.label in names]
    common = [Side(unequal, cell, a.part) for cell in common_rows(a.cell, b.cell)] if unequal else [a, b]
    measured = {
        label: [a, b] if label in equal else common for label in of_label if label in equal or all(label in of.tasks for of in common)
    }
    for side in (a, b, *common):
        side.resample([label for label, of in measured.items() if side in of])
    tests = []
    for label, of in measured.items():
        metric = of_label[label]
        test = _test(label, metric, of, level, _margin(metric, margins))
        share_a, share_b = (mean_of([task.measured for task in side.tasks[label]]).scored_share for side in (a, b))
        tests.append(replace(test, share_a=share_a, share_b=share_b))
    return tests


def compare_models(
    metrics: Sequence[Metric], cells: Mapping[str, Cell], slices: Sequence[Slice], asked: dict[str, Any], level: float
) -> Iterator[tuple[dict[str, Any], Evidence]]:
    """Yield (row of COMPARISONS, its evidence) per test of the pairs that a spec asks for.

    `cells` are the clean cells by model; of the slices, all rows come first; `asked` is the spec's `compare`, and pairs of its studies are
    tested over all rows by the metrics STUDIED.
    """
    pairs = pairs_of(asked, list(cells))
    known = {frozenset(pair) for pair in pairs}
    studied = [(a, b) for a, b in asked.get("studied", ()) if {a, b} <= cells.keys() and {a, b} not in known]
    compared = [_tested_metric(metric) for metric in metrics]
    by = [metric for metric in compared if metric.plugin.name in STUDIED]
    for part, chosen, tested in [*((part, compared, pairs) for part in slices), (slices[0], by, studied)]:
        sides = {model: Side(chosen, cells[model], part) for model in dict.fromkeys(chain.from_iterable(tested))}
        for a, b in tested:
            same = {"a": a, "b": b, "dataset": cells[a].samples.name, "slice": part.label}
            for test in compare_sides(metrics, sides[a], sides[b], level, asked["margin"]):
                yield same | test.row, test.evidence


class Side:
    """One side of a paired test: a model on one slice, with its metrics' resampled values."""

    def __init__(self, metrics: Sequence[Metric], cell: Cell, part: Slice) -> None:
        self.metrics, self.cell, self.part = metrics, cell, part
        self.tasks = dict(tasks_of(metrics, cell, part)[1])
        self.measured: dict[str, Measured] = {}
        """Values in all resamples, of the labels that a test has asked for."""

    def resample(self, labels: Sequence[str]) -> None:
        """Set `measured` of these labels: their values in all resamples, each label once."""
        new = [label for label in labels if label not in self.measured]
        tasks = {id(task): task for label in new for task in self.tasks[label] if task.measured.n}
        resample(list(tasks.values()), self.part.bootstrap)
        self.measured |= {label: mean_of([task.measured for task in self.tasks[label]]) for label in new}


def _tested_metric(metric: Metric) -> Metric:
    """Return the metric whose values are tested: itself, or the unbiased one it names."""
    name = metric.plugin.declares.get("compared_by")
    if name is None:
        return metric
    parameters = signature(registry.load("metrics", name)).parameters.values()
    args = {one.name: metric.args.get(one.name, one.default) for one in parameters if one.kind is one.KEYWORD_ONLY}
    (other,) = read_metrics([{"label": metric.label, "plugin": name, "args": args | {"squared": True}}])
    return replace(other, interval="t", why_no_interval="")


def _margin(metric: Metric, margins: float | Mapping[str, float] | None) -> float:
    """Return the equivalence margin of a metric; NaN if none applies."""
    if margins is None or "compared_by" in metric.plugin.declares:
        return math.nan
    if isinstance(margins, Mapping):
        return float(margins.get(metric.label, math.nan))
    return float(margins) if metric.interval in BOUNDS else math.nan


def _scores(cell: Cell) -> dict[str, list[str]]:
    return {name: list(setting.scores) for name, setting in cell.settings.items()}


def _are_over_same_rows(a: MetricTask, b: MetricTask) -> bool:
    """Return whether two tasks are scored on the same rows, and the same rows calibrate."""
    pairs = zip(a.metric.reads, a.arrays, b.arrays, strict=True)
    return np.array_equal(a.of_cell, b.of_cell) and all(np.array_equal(x, y) for name, x, y in pairs if name == "is_calibration")


def _test(label: str, metric: Metric, sides: Sequence[Side], level: float, margin: float) -> Test:
    a, b = (side.measured[label] for side in sides)
    tasks = [task for side in sides for task in side.tasks[label]]
    by, compared_by = tasks[0].metric, metric.plugin.declares.get("compared_by", "")
    n, better = (a.n + b.n) // 2, by.plugin.declares.get("higher_is_better")
    nothing = Test(label, a.value, b.value, np.nan, np.nan, np.nan, n, better, compared_by=compared_by)
    if any(not task.measured.n for task in tasks):
        return replace(nothing, value_a=np.nan, value_b=np.nan, why=a.why or b.why or "no row that both are scored on")
    classes = [rarest_class(task) for task in tasks if task.metric.classes is not None]
    difference = _difference(a, b, sides[0].part.bootstrap.groups, [units for _, units in classes])
    why = by.why_no_interval or difference.why_no_test
    if not why and classes and (rows := min(rows for rows, _ in classes)) < MIN_CLASS_ROWS:
        why = f"{rows} answers of the rarer class: a test needs {MIN_CLASS_ROWS}"
    if why:
        return replace(nothing, why=why)
    bounds = difference_bounds((min(a.bounds[0], b.bounds[0]), max(a.bounds[1], b.bounds[1])))
    ends = difference.interval(level, bounds)
    equivalent, not_worse = difference.within_margin(margin, better, bounds)
    evidence, p = Evidence(difference.p, difference.draws), difference.p
    tested = replace(nothing, low=ends.low, high=ends.high, p=p, margin=margin, evidence=evidence)
    return replace(tested, p_equivalent=equivalent, p_not_worse=not_worse)


def _difference(a: Measured, b: Measured, groups_of_slice: int, units_of_classes: Sequence[float]) -> PairedDifference:
    """Return the paired difference b minus a, with the smaller group count of both sides."""
    groups = min(groups_of_slice if of.groups is None else of.groups for of in (a, b))
    units = min([*(float(groups) if of.units is None else of.units for of in (a, b)), *units_of_classes])
    times = min(len(a.resampled), len(b.resampled))  # of recalibrated confidences one may be refitted less often
    resampled = b.resampled[:times] - a.resampled[:times]
    calibrating = min((of.calibrating for of in (a, b) if of.calibrating is not None), default=None)
    if calibrating is None:
        return PairedDifference(b.value - a.value, resampled, b.deleted - a.deleted, groups, units)
    return PairedDifference(b.value - a.value, resampled, np.empty(0), min(groups, calibrating), units + calibrating - 1)


def rarest_class(task: MetricTask) -> tuple[int, float]:
    """Return (rows, effective groups) of a metric's rarer class, each the minimum of two."""
    assert task.metric.classes is not None
    codes = task.metric.classes(*task.arrays, **task.metric.args) > 0
    chosen = [codes & task.counted, ~codes & task.counted]
    return min(int(rows.sum()) for rows in chosen), min(effective_units(task.group[rows]) if rows.any() else 0.0 for rows in chosen)


@dataclass(frozen=True)
class PairedDifference:
    """Test of a difference that is 0 under the null hypothesis, by resamples and jackknife."""

    value: float
    resampled: Floats
    deleted: Floats
    """Empty without a jackknife."""
    groups: int
    units: float
    """Effective number of groups by their rows."""

    @cached_property
    def why_no_test(self) -> str:
        """Return the reason why there is no test; "" if there is one."""
        if math.isnan(self.value):
            return "one side has no value"
        if self.groups < MIN_GROUPS:
            return f"{self.groups} scored group{'s' * (self.groups != 1)}: a test needs {MIN_GROUPS}"
        undefined = int(np.isnan(self.resampled).sum())
        if 2 * undefined > len(self.resampled):
            return f"undefined in {undefined} of {len(self.resampled)} resamples"
        return "undefined if some groups are left out" if np.isnan(self.deleted).any() else ""

    @cached_property
    def error(self) -> float:
        """Return the larger of bootstrap and jackknife standard error; 0 if no group differs."""
        of_bootstrap = standard_error(self.resampled, self.groups) if len(self.resampled) else 0.0
        of_jackknife = jackknife_error(self.deleted) if len(self.deleted) else 0.0
        error = max(of_bootstrap, of_jackknife)
        return error if error > FLAT else 0.0

    @property
    def effective_groups(self) -> float:
        """Return the effective number of groups, at most the number of groups."""
        return min(self.groups, self.units)

    @cached_property
    def exchange_error(self) -> float:
        """Return |value| / sqrt(effective groups): the error if every group differs by |value|."""
        size = abs(self.value)
        return size / math.sqrt(self.effective_groups) if size > FLAT else 0.0

    @cached_property
    def freedom(self) -> float:
        return max(1.0, degrees_of_freedom(self.value, self.deleted, self.units, False))

    @property
    def p(self) -> float:
        """Return the larger two-sided p-value: of Student's t, or of sides exchanged by group."""
        from scipy.special import ndtr, stdtr

        if not self.exchange_error:
            return 1.0
        of_t = float(stdtr(self.freedom, -abs(self.value) / self.error)) if self.error else 0.0
        of_exchanges = float(ndtr(-exchange_deviate(abs(self.value), self.error, self.effective_groups)))
        return 2 * max(of_t, of_exchanges)

    def interval(self, level: float, bounds: Bounds) -> Limits:
        """Return the interval of differences that the test does not reject, or why there is none.

        It is at least as wide as if each group counted by its sign alone.
        """
        if not self.error and not self.exchange_error:
            return Limits(why_none="every resample gives the same value")
        q, groups = critical(level, math.inf), self.effective_groups
        if q**2 >= groups:
            return Limits(why_none=f"{groups:.1f} effective groups: an interval at this level needs more than {q**2:.1f}")
        reach = max(critical(level, self.freedom) * self.error, q * self.error / math.sqrt(1 - q**2 / groups), q * self.exchange_error)
        ends = clip_to_bounds(Limits(self.value - reach, self.value + reach), self.value, bounds)
        return ends if ends.why_none else Limits(round_result(ends.low), round_result(ends.high))

    def within_margin(self, margin: float, higher_is_better: bool | None, bounds: Bounds) -> tuple[float, float]:
        """Return p-values (|value| < margin, not worse than 0 by the margin); NaN if undefined.

        One group is taken to differ as much as it can if none is seen to differ.
        """
        from scipy.special import stdtr

        error = max(self.error, self.exchange_error, (bounds[1] - bounds[0]) / 2 / self.groups)
        if math.isnan(margin) or math.isinf(error):
            return math.nan, math.nan
        below, above = (float(stdtr(self.freedom, (side - margin) / error)) for side in (self.value, -self.value))
        not_worse = math.nan if higher_is_better is None else above if higher_is_better else below
        return max(below, above), not_worse

    @property
    def draws(self) -> NDArray[np.float32]:
        """Return resampled values around their mean in units of spread; 0 where undefined."""
        centred = self.resampled - (np.nanmean(self.resampled) if len(self.resampled) else 0.0)
        spread = float(balanced_spread(centred)) if len(centred) else 0.0
        return np.nan_to_num(centred / spread if spread > FLAT else np.zeros_like(centred)).astype(np.float32)


def common_rows(a: Cell, b: Cell) -> tuple[Cell, Cell]:
    """Return copies (a, b) with their common columns, NaN in both where one is unscored."""
    return _on_rows_of(a, b), _on_rows_of(b, a)


def _on_rows_of(cell: Cell, other: Cell) -> Cell:
    settings = {}
    for name in (name for name in cell.settings if name in other.settings):
        mine, theirs = cell.settings[name], other.settings[name]
        # What calibrates for one is out for both, so that both are tested on the same rows.
        calibrates = np.maximum(mine.is_calibration, theirs.is_calibration)
        scores = {score: _common(mine.scores[score], theirs.scores[score]) for score in mine.scores if score in theirs.scores}
        redraws = {score: redraw for score, redraw in mine.redraws.items() if score in scores and score in theirs.redraws}
        settings[name] = Setting(calibrates, scores, redraws)
    others = {of.label: of for of in other.recalibrations}
    recalibrations = [of.on_common_rows(others[of.label]) for of in cell.recalibrations if of.label in others]
    uncertainties = _common(cell.uncertainties, other.uncertainties)
    clean = _common(cell.clean_uncertainties, other.clean_uncertainties)
    columns = _common(cell.columns, other.columns)
    return Cell(cell.model, cell.samples, cell.variant, columns, settings, uncertainties, clean, recalibrations=recalibrations)


def _common(mine: Mapping[str, Floats], yours: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the columns of `mine` that both have, NaN where either lacks a value."""
    columns = {}
    for name in (name for name in mine if name in yours):
        columns[name] = mine[name].astype(np.float64)
        columns[name][missing_rows(mine[name]) | missing_rows(yours[name])] = np.nan
    return columns


def pairs_of(compare: dict[str, Any], models: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs to test: (baseline, each other model), and requested (a, b), once each."""
    baseline = compare["baseline"]
    pairs = [(baseline, m) for m in models if m != baseline] if baseline in models else []
    pairs += [(a, b) for a, b in compare["pairs"] if a in models and b in models]
    return list(dict.fromkeys(pairs))
