"""Scores of all cells of a benchmark, and the inputs of its rankings, tests and studies."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from qualm.registry import ALL, DATASETS
from qualm.registry.plugins.column_names import CODE_OF, GROUP_OF
from qualm.registry.plugins.columns import field_of
from qualm.registry.sample import CLEAN, LABELLED_SCORES, RECALIBRATED
from qualm.runners.data.aligned import CROSS, Samples, check_fields
from qualm.runners.data.splits import read_scored
from qualm.runners.runtime.records import make_table
from qualm.runners.runtime.stage import Stage
from qualm.runners.scoring.calibration.comparisons import Comparisons
from qualm.runners.scoring.calibration.fits import RAW, Recalibration
from qualm.runners.scoring.cells import PAIRED, Cell
from qualm.runners.scoring.families import Evidence, Family
from qualm.runners.scoring.limits import Limits
from qualm.runners.scoring.measuring.curves import Curves
from qualm.runners.scoring.measuring.evaluate import evaluate, why_absent
from qualm.runners.scoring.measuring.intervals import intervals_and_columns
from qualm.runners.scoring.measuring.measured import Measured, Slice
from qualm.runners.scoring.measuring.metrics import Metric, read_metrics
from qualm.runners.scoring.measuring.over_datasets import OverDatasets
from qualm.runners.scoring.measuring.read_cells import read_cells
from qualm.runners.scoring.measuring.score_table import count_undefined, score_rows
from qualm.runners.scoring.measuring.slices import changed_slices, make_slices
from qualm.runners.scoring.measuring.tables import Tables
from qualm.runners.scoring.paired_tests import compare_models
from qualm.runners.scoring.perturbation_tests import effect_rows, is_of_correlation, metrics_with_effect_test
from qualm.runners.scoring.rankings import Rankings


class Study(Protocol):
    """Protocol: collector of metric values by model and variant, for a study of perturbations."""

    def add(self, cell: Cell, groups: int, metrics: Sequence[tuple[str, Measured]], limits: Sequence[Limits]) -> None:
        """Collect a cell's values and intervals over all its rows, which are in `groups` groups."""

    def add_changed(self, cell: Cell, metrics: Sequence[tuple[str, Measured]], limits: Sequence[Limits]) -> None:
        """Collect a cell's values over samples whose perturbed input differs from the clean one."""


class AbsentMetrics:
    """Collects, with reasons, the metrics that are undefined for all answers of a model."""

    def __init__(self, metrics: Sequence[Metric], models: Collection[str]) -> None:
        self.metrics, self.models = metrics, models
        self.measured: set[tuple[str, str]] = set()
        self.reasons: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        """(model, metric) -> dataset -> first variant without a value, and the reason."""

    def add(self, cell: Cell) -> None:
        for metric in self.metrics if cell.model in self.models else ():
            key = (cell.model, metric.label)
            if cell.applies(frozenset(metric.reads)):
                self.measured.add(key)
            elif key not in self.measured:
                self.reasons.setdefault(key, {}).setdefault(cell.samples.name, (cell.variant, why_absent(metric, cell)))

    def rows(self) -> list[dict[str, Any]]:
        """Return a LABELLED_SCORES row without value per dataset, for metrics a model has on none."""
        none = {"value": None, "low": None, "high": None, "n": 0, "n_unscored": 0}
        return [
            {"model": model, "dataset": dataset, "variant": variant, "slice": ALL, "metric": label, "why": why, **none}
            for (model, label), by_dataset in self.reasons.items()
            if (model, label) not in self.measured
            for dataset, (variant, why) in by_dataset.items()
        ]


class Scoring:
    """Scorer of all cells (model, dataset, variant); collects rows for tables and rankings."""

    def __init__(self, stage: Stage) -> None:
        params = stage.params
        self.stage = stage
        self.metrics = read_metrics(params["metrics"])
        self.level, self.resamples = params["interval"]["level"], params["interval"]["bootstrap"]
        self.averaged: list[str] = params.get("macro_averages", [])
        self.datasets = [read_scored(stage, name, folder) for name, folder in sorted(stage.inputs["datasets"].items())]
        self._check_fields()
        self.tables = Tables(stage, self.datasets)
        self.compared = params.get("compare")
        tests = self.compared or params.get("tests") or {"correction": "none", "family": "study"}
        together = params.get("family", tests["family"])
        self.family = Family(tests["correction"], tests["family"])
        self.rankings = Rankings(self.metrics, self.level, together)
        self.calibrators = Comparisons(self.metrics, self.level, together)
        self.study: Study | None = None
        """Set before the first cell, where the spec studies perturbations."""
        self.absent = AbsentMetrics(self.metrics, set(stage.inputs["generations"]))
        self.over_datasets, self.curves = OverDatasets(self.level), Curves()
        self.scores: list[pa.Table] = []
        self.recalibrated: list[pa.Table] = []
        self.comparisons: list[dict[str, Any]] = []
        self.effects: list[dict[str, Any]] = []
        self._tested = metrics_with_effect_test(self.metrics) if "effects" in stage.outputs else []
        self._paired = [metric for metric in self.metrics if PAIRED & set(metric.reads)]

    @property
    def _macro_fields(self) -> list[str]:
        return [name for name in self.averaged if name != DATASETS]

    def _check_fields(self) -> None:
        for key, names in (("slices", self.stage.params["slices"]), ("macro_averages", self._macro_fields)):
            check_fields(key, [part for crossed in names for part in crossed.split(CROSS)], self.datasets)
        for metric in self.metrics:
            fields = [field_of(column) for column in metric.reads if column.startswith((GROUP_OF, CODE_OF))]
            check_fields(f"metric {metric.label}", fields, self.datasets)

    def score(self, samples: Samples) -> None:
        """Score one dataset's cells, then compare its models; collect the rows in this object."""
        slices = make_slices(samples, self.stage.params["slices"], self.resamples, self.stage.seed, self._macro_fields)
        clean: dict[str, Cell] = {}
        for cell in read_cells(self.stage, samples, self.tables):
            self.curves.add(cell)
            self.absent.add(cell)
            self.recalibrated += [recalibrated_answers(cell, of) for of in cell.recalibrations if of.method != RAW]
            if self.compared and cell.variant == CLEAN:
                clean[cell.model] = cell
            self._score_cell(cell, slices)
            del cell  # before the next one is read
        if self.compared:
            found = list(compare_models(self.metrics, clean, slices, self.compared, self.level))
            self.comparisons += self._add_to_family(found)
            self.stage.count(comparisons=len(found))
        self.rankings.rank()

    def _score_cell(self, cell: Cell, slices: Sequence[Slice]) -> None:
        rows: list[dict[str, Any]] = []
        for part in slices:
            values, limits = self._measure(self.metrics, cell, part, rows)
            if "rankings" in self.stage.outputs:
                self.rankings.add(cell, part, values, part is slices[0], cell.variant == CLEAN)
            if self.study and part.label == ALL:
                self.study.add(cell, part.bootstrap.groups, values, limits)
            self.calibrators.add(cell, part, values, limits)
            if DATASETS in self.averaged:
                self.over_datasets.add(cell, part, values, limits)
            if self._tested and not part.macro and "clean_correct" in cell.columns:
                self.effects += self._add_to_family(effect_rows(self._tested, cell, part, values))
        for part in changed_slices(cell, slices[0]):
            values, limits = self._measure(self._paired, cell, part, rows)
            if self.study:
                self.study.add_changed(cell, values, limits)
            of_correlation = [metric for metric in self._tested if is_of_correlation(metric)]
            self.effects += self._add_to_family(effect_rows(of_correlation, cell, part, values))
        self.scores.append(pa.Table.from_pylist(rows, schema=LABELLED_SCORES))

    def _measure(
        self, metrics: Sequence[Metric], cell: Cell, data_slice: Slice, rows: list[dict[str, Any]]
    ) -> tuple[list[tuple[str, Measured]], list[Limits]]:
        """Append score rows to `rows`, count them in the stage; return (values, intervals)."""
        values = evaluate(metrics, cell, data_slice)
        limits, columns = intervals_and_columns([measured for _, measured in values], self.level, data_slice.bootstrap.groups)
        rows += score_rows(cell, data_slice, values, columns)
        self.stage.count(**count_undefined(values))
        return values, limits

    def _add_to_family(self, tests: Iterable[tuple[dict[str, Any], Evidence]]) -> Iterator[dict[str, Any]]:
        """Yield the tests' table rows, adding each test to the family when its row is taken."""
        for row, evidence in tests:
            self.family.add(row, evidence)
            yield row

    @cached_property
    def labelled(self) -> pa.Table:
        """Return the LABELLED_SCORES of all cells."""
        return pa.concat_tables([LABELLED_SCORES.empty_table(), *self.scores])

    @cached_property
    def judges(self) -> dict[str, str | None]:
        """Return the judge whose ratings count as correctness, by dataset; None without a judge."""
        return {samples.name: self.tables.judge_of_answers(samples) for samples in self.datasets}


def recalibrated_answers(cell: Cell, recalibration: Recalibration) -> pa.Table:
    """Return a RECALIBRATED table: answers that calibrate or have a recalibrated confidence."""
    confidence = recalibration.columns["confidence"]
    fitted = np.zeros(cell.samples.n, dtype=bool)
    fitted[recalibration.rows] = True
    rows = np.flatnonzero(fitted | ~np.isnan(confidence))
    option = recalibration.columns.get("predicted", np.full(cell.samples.n, np.nan))[rows]
    texts = cell.place | {"setting": recalibration.setting, "method": recalibration.method}
    ends = np.full((2, cell.samples.n), np.nan) if recalibration.ends is None else recalibration.ends
    columns = {
        "estimator": pa.array([recalibration.of or None] * len(rows), pa.string()),
        "sample_id": cell.samples.ids.take(pa.array(rows)),
        "confidence": pa.array(confidence[rows], mask=np.isnan(confidence[rows])),
        "option": pa.array(np.nan_to_num(option, nan=-1).astype(np.int64), mask=np.isnan(option)),
        "is_calibration": pa.array(fitted[rows]),
        **{name: pa.array(end[rows], mask=np.isnan(end[rows])) for name, end in zip(("p0", "p1"), ends, strict=True)},
    }
    return make_table(RECALIBRATED, texts, columns)
