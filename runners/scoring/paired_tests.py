"""Paired comparison of two models on the same questions: difference, interval and p-value of every metric.

Both sides are measured on the same rows and in the same resamples of whole groups, so that what they share (easy questions, several
questions about one image) cancels out. The two sides are laid out as one cell of twice the rows, groups of b behind those of a; a side and
a resample of a side are then nothing but weights, and every metric takes part unchanged, calibration errors and rankings too.

The test is Student's t of the difference over its standard error, with the effective number of groups less one as degrees of freedom; the
interval inverts it. It assumes that the two metrics are equal, not that the two models are exchangeable: models of different accuracy or
sharpness may have equal AUROC or calibration (Janssen, 1997; Chung and Romano, 2013, on studentised tests under such nulls).

- The standard error is the larger one of the bootstrap and of the delete-a-group jackknife, which allows for large groups.
- No p-value is below that of exchanging the models in each group, by its normal approximation: if all of ten groups differ alike, their
  standard error is 0, but chance alone does this once in 512 times. The interval is as wide as that says.
- A metric whose estimate is biased by an amount that depends on the model is compared by an unbiased one, which its plugin names
  (`compared_by`): calibration errors by the squared bias-corrected error. Its test is conservative for calibrated models.
- There is no test where a single value has no interval, and below MIN_CLASS_ROWS answers of the rarer class where a metric contrasts two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.registry.plugins import registry
from qualm.runners.contracts.grouped_weights import Floats, Weights
from qualm.runners.contracts.metrics import lacking
from qualm.runners.data.aligned import Samples
from qualm.runners.runtime.precision import result
from qualm.runners.scoring.bootstrap import Resamples
from qualm.runners.scoring.calibration.drawing import First
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.families import Evidence, balanced_spread
from qualm.runners.scoring.limits import (
    BOUNDS,
    FEWEST_GROUPS,
    FLAT,
    Bounds,
    Limits,
    apart,
    critical,
    degrees_of_freedom,
    effective_units,
    exchange_deviate,
    jackknife_error,
    standard_error,
    within,
)
from qualm.runners.scoring.measuring.evaluate import tasks_of
from qualm.runners.scoring.measuring.measured import MetricTask, Slice, mean_of, or_null
from qualm.runners.scoring.measuring.metrics import Metric, read_metrics
from qualm.runners.scoring.measuring.resampling import resample

STUDIED = ("accuracy", "set_size", "uncertainty_aware_accuracy")
"""Metrics of the studies of size and chat tuning, by which their pairs are tested over whole datasets."""
MIN_CLASS_ROWS = 10
"""Least number of answers of the rarer class (right or wrong, answerable or not) of each model."""
NUMBERS = ("value_a", "value_b", "difference", "low", "high", "p", "margin", "p_equivalent", "p_not_worse")
"""Fields of a Test that are columns of COMPARISONS."""


@dataclass(frozen=True)
class Test:
    """Result of one metric for b against a on one dataset and slice."""

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
        """Return the columns of COMPARISONS that one test fills in; null where undefined."""
        shares = {"scored_share_a": or_null(self.share_a), "scored_share_b": or_null(self.share_b)}
        about = {"n": self.n, "higher_is_better": self.higher_is_better, "why": self.why or None, "compared_by": self.compared_by or None}
        return {"metric": self.metric} | {name: or_null(getattr(self, name)) for name in NUMBERS} | about | shares


def compare(
    metrics: Sequence[Metric], a: Cell, b: Cell, part: Slice, level: float, margins: float | Mapping[str, float] | None = None
) -> list[Test]:
    """Test every metric that applies to both cells, over the rows that both are scored on.

    Args:
        metrics: Metrics of the spec.
        a: Cell of the first model.
        b: Cell of the second, with the same samples.
        part: Slice and its resamples.
        level: Level of the intervals.
        margins: Largest difference that does not matter, of all shares and correlations or by metric label.
    """
    both, shares = side_by_side(a, b), [scored_shares(metrics, cell, part) for cell in (a, b)]
    rows = np.concatenate([part.rows, part.rows + a.samples.n])
    compared = [_compared(metric) for metric in metrics]
    tasks, labels = tasks_of(compared, both, replace(part, rows=rows))
    live = [task for task in tasks if task.measured.n]
    resample([task for task in live if task.refit is None], Sides(part.bootstrap, len(part.rows), a.samples.n))
    refitted: dict[int, list[MetricTask]] = {}
    for task in live:
        if task.refit is not None:
            refitted.setdefault(task.refit.refits, []).append(task)
    for refits, chosen in refitted.items():
        resample(chosen, Sides(First(part.bootstrap, refits), len(part.rows), a.samples.n))
    of_label = {metric.label: (metric, by) for metric, by in zip(metrics, compared, strict=True)}
    tests = []
    for label, of in labels:
        metric, by = of_label[_owner(label, of_label)]
        name = "" if by is metric else by.plugin.name
        test = _test(label, by, of, part.bootstrap, a.samples.n, level, _margin(metric, margins), name)
        tests.append(replace(test, share_a=shares[0].get(label, np.nan), share_b=shares[1].get(label, np.nan)))
    return tests


def compare_models(
    metrics: Sequence[Metric], cells: Mapping[str, Cell], slices: Sequence[Slice], asked: dict[str, Any], level: float
) -> Iterator[tuple[dict[str, Any], Evidence]]:
    """Yield a row of COMPARISONS, and its evidence, for each test of the pairs that a spec asks for on one dataset.

    Args:
        metrics: Metrics of the spec.
        cells: Clean cell of each model.
        slices: Slices, all rows first.
        asked: The spec's `compare`; pairs of its studies are tested over all rows by the metrics STUDIED.
        level: Level of the intervals.
    """
    pairs = pairs_of(asked, list(cells))
    tests = [(part, pair, metrics) for part in slices for pair in pairs]
    by = [metric for metric in metrics if metric.plugin.name in STUDIED]
    known = {frozenset(pair) for pair in pairs}
    studied = [(a, b) for a, b in asked.get("studied", ()) if {a, b} <= cells.keys() and {a, b} not in known]
    tests += [(slices[0], pair, by) for pair in studied]
    for part, (a, b), chosen in tests:
        same = {"a": a, "b": b, "dataset": cells[a].samples.name, "slice": part.label}
        for test in compare(chosen, cells[a], cells[b], part, level, asked["margin"]):
            yield same | test.row, test.evidence


def scored_shares(metrics: Sequence[Metric], cell: Cell, part: Slice) -> dict[str, float]:
    """Return the scored share of every label of the metrics on one cell."""
    return {label: mean_of([task.measured for task in of]).scored_share for label, of in tasks_of(metrics, cell, part)[1]}


def _compared(metric: Metric) -> Metric:
    """Return the metric by which a metric is compared: itself, or the unbiased one that its plugin names."""
    name = metric.plugin.declares.get("compared_by")
    if name is None:
        return metric
    parameters = signature(registry.load("metrics", name)).parameters.values()
    args = {one.name: metric.args.get(one.name, one.default) for one in parameters if one.kind is one.KEYWORD_ONLY}
    (other,) = read_metrics([{"label": metric.label, "plugin": name, "args": args | {"squared": True}}])
    return replace(other, interval="t", why_no_interval="")


def _margin(metric: Metric, margins: float | Mapping[str, float] | None) -> float:
    """Return the margin of a metric; NaN where none is declared, or where it is compared in other units than its own."""
    if margins is None or "compared_by" in metric.plugin.declares:
        return math.nan
    if isinstance(margins, Mapping):
        return float(margins.get(metric.label, math.nan))
    return float(margins) if metric.interval in BOUNDS else math.nan


def _owner(label: str, labels: dict[str, Any]) -> str:
    """Return the metric of a label that may have brackets behind it."""
    return label if label in labels else label[: label.rindex("[")]


def _test(
    label: str, metric: Metric, of: list[MetricTask], bootstrap: Resamples, half: int, level: float, margin: float, compared_by: str
) -> Test:
    measured = mean_of([task.measured for task in of])
    # Rows of both sides were counted; the test is over half of them.
    n, better = measured.n // 2, metric.plugin.declares.get("higher_is_better")
    values = measured.resampled
    if not len(values):
        return Test(label, np.nan, np.nan, np.nan, np.nan, np.nan, n, better, measured.why or "no row that both are scored on", compared_by)
    # In the order in which `Sides` hands out weights: a, b, resamples of a, of b.
    value_a, value_b = float(values[0]), float(values[1])
    drawn, deleted = (sides.reshape(2, -1) for sides in (values[2:], measured.deleted))
    groups = bootstrap.groups if measured.groups is None else measured.groups
    classes = [rarest_class(task, half) for task in of if task.metric.classes is not None]
    units = min([float(groups) if measured.units is None else measured.units, *(units for _, units in classes)])
    difference = Difference(
        value_b - value_a,
        drawn[1] - drawn[0],
        deleted[1] - deleted[0],
        groups if measured.calibrating is None else min(groups, measured.calibrating),
        units if measured.calibrating is None else units + measured.calibrating - 1,
    )
    why = metric.why_no_interval or difference.why_no_test
    if not why and classes and (rows := min(rows for rows, _ in classes)) < MIN_CLASS_ROWS:
        why = f"{rows} answers of the rarer class: a test needs {MIN_CLASS_ROWS}"
    if why:
        return Test(label, value_a, value_b, np.nan, np.nan, np.nan, n, better, why, compared_by)
    ends = difference.interval(level, apart(measured.bounds))
    equivalent, not_worse = difference.within_margin(margin, better, apart(measured.bounds))
    return Test(
        label,
        value_a,
        value_b,
        ends.low,
        ends.high,
        difference.p,
        n,
        better,
        compared_by=compared_by,
        p_equivalent=equivalent,
        p_not_worse=not_worse,
        margin=margin,
        evidence=Evidence(difference.p, difference.draws),
    )


def rarest_class(task: MetricTask, half: int) -> tuple[int, float]:
    """Count the rows, and the effective number of groups, of the rarest class of either side.

    Args:
        task: Of a metric that contrasts classes, on two sides.
        half: Rows of one side's cell.
    """
    assert task.metric.classes is not None
    counts = []
    for side in (task.of_cell < half, task.of_cell >= half):
        codes = task.metric.classes(*(column[side] for column in task.arrays), **task.metric.args) > 0
        counted, group = task.counted[side], task.group[side]
        for rows in (codes & counted, ~codes & counted):
            counts.append((int(rows.sum()), effective_units(group[rows]) if rows.any() else 0.0))
    return min(rows for rows, _ in counts), min(units for _, units in counts)


@dataclass(frozen=True)
class Difference:
    """A value that is 0 under the null hypothesis, with its resamples and jackknife."""

    value: float
    resampled: Floats
    deleted: Floats
    """Empty without a jackknife."""
    groups: int
    units: float
    """Effective number of groups by their rows."""

    @cached_property
    def why_no_test(self) -> str:
        """Reason why there is no test; empty if there is one."""
        if math.isnan(self.value):
            return "one side has no value"
        if self.groups < FEWEST_GROUPS:
            return f"{self.groups} scored group{'s' * (self.groups != 1)}: a test needs {FEWEST_GROUPS}"
        undefined = int(np.isnan(self.resampled).sum())
        if 2 * undefined > len(self.resampled):
            return f"undefined in {undefined} of {len(self.resampled)} resamples"
        return "undefined if some groups are left out" if np.isnan(self.deleted).any() else ""

    @cached_property
    def error(self) -> float:
        """Standard error; 0 where no group differs from another."""
        of_bootstrap = standard_error(self.resampled, self.groups) if len(self.resampled) else 0.0
        of_jackknife = jackknife_error(self.deleted) if len(self.deleted) else 0.0
        error = max(of_bootstrap, of_jackknife)
        return error if error > FLAT else 0.0

    @property
    def effective_groups(self) -> float:
        """Effective number of groups, no more than there are."""
        return min(self.groups, self.units)

    @cached_property
    def agreement(self) -> float:
        """Standard error of the sign of groups that all differ by the value: |value| / sqrt(effective groups)."""
        size = abs(self.value)
        return size / math.sqrt(self.effective_groups) if size > FLAT else 0.0

    @cached_property
    def freedom(self) -> float:
        return max(1.0, degrees_of_freedom(self.value, self.deleted, self.units, False))

    @property
    def p(self) -> float:
        """Two-sided p-value: the larger one of Student's t and of exchanges of the sides in each group."""
        from scipy.special import ndtr, stdtr

        if not self.agreement:
            return 1.0
        of_t = float(stdtr(self.freedom, -abs(self.value) / self.error)) if self.error else 0.0
        of_exchanges = float(ndtr(-exchange_deviate(abs(self.value), self.error, self.effective_groups)))
        return 2 * max(of_t, of_exchanges)

    def interval(self, level: float, bounds: Bounds) -> Limits:
        """Return the interval that the test inverts, at least as wide as if the sign of each group were its value."""
        if not self.error and not self.agreement:
            return Limits(why_none="every resample gives the same value")
        q, groups = critical(level, math.inf), self.effective_groups
        if q**2 >= groups:
            return Limits(why_none=f"{groups:.1f} effective groups: an interval at this level needs more than {q**2:.1f}")
        reach = max(critical(level, self.freedom) * self.error, q * self.error / math.sqrt(1 - q**2 / groups), q * self.agreement)
        ends = within(Limits(self.value - reach, self.value + reach), self.value, bounds)
        return ends if ends.why_none else Limits(result(ends.low), result(ends.high))

    def within_margin(self, margin: float, higher_is_better: bool | None, bounds: Bounds) -> tuple[float, float]:
        """Return p-values that the value lies within the margin, and that it is worse than 0 by less than the margin.

        One group is taken to differ as much as it can if none is seen to differ.
        """
        from scipy.special import stdtr

        error = max(self.error, self.agreement, (bounds[1] - bounds[0]) / 2 / self.groups)
        if math.isnan(margin) or math.isinf(error):
            return math.nan, math.nan
        below, above = (float(stdtr(self.freedom, (side - margin) / error)) for side in (self.value, -self.value))
        not_worse = math.nan if higher_is_better is None else above if higher_is_better else below
        return max(below, above), not_worse

    @property
    def draws(self) -> NDArray[np.float32]:
        """Resampled values around their mean in units of their spread, 0 where undefined."""
        centred = self.resampled - (np.nanmean(self.resampled) if len(self.resampled) else 0.0)
        spread = float(balanced_spread(centred)) if len(centred) else 0.0
        return np.nan_to_num(centred / spread if spread > FLAT else np.zeros_like(centred)).astype(np.float32)


class Sides:
    """Weights of both sides: a, b, then some resamples of a, and the same of b."""

    def __init__(self, bootstrap: Resamples, rows: int, rows_of_dataset: int) -> None:
        """Lay two sides out behind each other.

        Args:
            bootstrap: Resamples of one side.
            rows: Rows of the slice on one side.
            rows_of_dataset: Rows of the dataset on one side.
        """
        self.bootstrap = bootstrap
        self.half = bootstrap.groups
        self.groups = 2 * self.half
        own = bootstrap.groups_of(np.arange(rows))
        self.group: NDArray[np.int64] = np.concatenate([own, own + self.half])
        self.times = 2 * (1 + bootstrap.times)
        # Thresholds and fits are drawn anew from all rows of the dataset.
        self.whole = self if bootstrap.whole is bootstrap else Sides(bootstrap.whole, rows_of_dataset, rows_of_dataset)

    def groups_of(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        groups: NDArray[np.int64] = self.group[rows]
        return groups

    def blocks(self) -> Iterator[Weights]:
        one, none = np.ones((1, self.half)), np.zeros((1, self.half))
        # One resample with only a, one with only b: the point estimates of both come out of the same pass.
        yield self._weights(one, none)
        yield self._weights(none, one)
        yield from self._of_each_side(self.bootstrap.blocks)

    def deletions(self) -> Iterator[Weights]:
        yield from self._of_each_side(self.bootstrap.deletions)

    def _of_each_side(self, blocks: Callable[[], Iterator[Weights]]) -> Iterator[Weights]:
        for is_a in (True, False):
            for block in blocks():
                counts, empty = block.counts, np.zeros_like(block.counts)
                yield self._weights(counts, empty) if is_a else self._weights(empty, counts)

    def _weights(self, of_a: Floats, of_b: Floats) -> Weights:
        return Weights(np.hstack([of_a, of_b]), self.group)


def side_by_side(a: Cell, b: Cell) -> Cell:
    """Stack the rows of both cells; a sample unscored in one is unscored in both."""

    def joined(mine: dict[str, Floats], yours: dict[str, Floats]) -> dict[str, Floats]:
        both = {}
        for name in [n for n in mine if n in yours]:
            both[name] = _behind(mine[name], yours[name])
            both[name][np.tile(lacking(mine[name]) | lacking(yours[name]), 2)] = np.nan
        return both

    settings = {}
    for name in [n for n in a.settings if n in b.settings]:
        one, other = a.settings[name], b.settings[name]
        # What calibrates for one is out for both, so that both are tested on the same rows.
        calibrates = np.maximum(one.is_calibration, other.is_calibration)
        scores = {s: joined(one.scores[s], other.scores[s]) for s in one.scores if s in other.scores}
        redraws = {s: one.redraws[s].stack(other.redraws[s]) for s in scores if s in one.redraws and s in other.redraws}
        settings[name] = Setting(np.tile(calibrates, 2), scores, redraws)
    theirs = {r.label: r for r in b.recalibrations}
    recalibrations = [r.stack(theirs[r.label]) for r in a.recalibrations if r.label in theirs]
    samples = Samples(a.samples.name, pa.concat_tables([a.samples.table, b.samples.table]), sides=2)
    uncertainties = joined(a.uncertainties, b.uncertainties)
    clean = joined(a.clean_uncertainties, b.clean_uncertainties)
    columns = joined(a.columns, b.columns)
    return Cell(b.model, samples, a.variant, columns, settings, uncertainties, clean, recalibrations=recalibrations)


def _behind(mine: Floats, yours: Floats) -> Floats:
    """Stack a column of both; options that one side lacks get probability 0."""
    if mine.ndim == 2 and mine.shape[1] != yours.shape[1]:
        width = max(mine.shape[1], yours.shape[1])
        mine, yours = (np.pad(side, ((0, 0), (0, width - side.shape[1]))) for side in (mine, yours))
    return np.concatenate([mine, yours])


def pairs_of(compare: dict[str, Any], models: Sequence[str]) -> list[tuple[str, str]]:
    """Return the tested pairs of models: all against the baseline, then the requested ones."""
    baseline = compare["baseline"]
    pairs = [(baseline, m) for m in models if m != baseline] if baseline in models else []
    pairs += [(a, b) for a, b in compare["pairs"] if a in models and b in models]
    return list(dict.fromkeys(pairs))
