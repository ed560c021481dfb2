"""Stage `score`: every metric on every model, dataset, variant and slice, with intervals; rankings, paired tests and recalibrations."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from qualm.registry import ALL, DATASETS, MACRO, MACRO_DATASETS, baseline_model
from qualm.registry.plugins.column_names import CODE_OF, GROUP_OF
from qualm.registry.plugins.columns import field_of
from qualm.registry.sample import (
    CALIBRATOR_COMPARISONS,
    CLEAN,
    COMPARISONS,
    CORRELATIONS,
    EFFECTS,
    ESTIMATOR_COMPARISONS,
    LABELLED_SCORES,
    RANKINGS,
    RECALIBRATED,
    SCORES,
)
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import CROSS, Samples, check_fields
from qualm.runners.data.splits import read_scored
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.stage import Stage
from qualm.runners.runtime.threads import one_thread
from qualm.runners.scoring.absent_metrics import AbsentMetrics
from qualm.runners.scoring.calibration.answers import recalibrated_answers
from qualm.runners.scoring.calibration.comparisons import Comparisons
from qualm.runners.scoring.calibration.fits import RAW
from qualm.runners.scoring.cells import PAIRED, Cell
from qualm.runners.scoring.families import Evidence, Family
from qualm.runners.scoring.limits import Limits
from qualm.runners.scoring.measuring.curves import FIELDS, Curves
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.intervals import described
from qualm.runners.scoring.measuring.measured import Measured, Slice
from qualm.runners.scoring.measuring.metrics import Metric, read_metrics
from qualm.runners.scoring.measuring.over_datasets import OverDatasets
from qualm.runners.scoring.measuring.read_cells import read_cells
from qualm.runners.scoring.measuring.score_table import count_undefined, in_parts, score_rows, shown_values
from qualm.runners.scoring.measuring.slices import changed_slices, make_slices
from qualm.runners.scoring.measuring.tables import Tables
from qualm.runners.scoring.paired_tests import compare_models
from qualm.runners.scoring.perturbation_tests import effect_rows, is_of_correlation, with_a_test
from qualm.runners.scoring.rankings import Rankings
from qualm.runners.studies import confidence_weighted_accuracy, perturbation

KIND = StageKind(
    title="Score everything, with intervals",
    reads=("datasets", "generations", "judgements", "uncertainties", "probe_values", "sets", "abstentions", "labels"),
    writes={
        "scores": "scores.parquet",
        "metrics": "metrics.json",
        "comparisons": "comparisons.parquet",
        "correlations": "correlations.parquet",
        "effects": "effects.parquet",
        "rankings": "rankings.parquet",
        "estimator_comparisons": "estimator_comparisons.parquet",
        "calibrator_comparisons": "calibrator_comparisons.parquet",
        "recalibrated": "recalibrated.parquet",
        "modality_scores": "modality_scores.parquet",
        "modality_comparisons": "modality_comparisons.parquet",
        "rank_stability": "rank_stability.parquet",
        "attributions": "attributions.parquet",
        "blames": "blames.parquet",
        "reliability": "plots/reliability.csv",
        "risk_coverage": "plots/risk_coverage.csv",
        "set_sizes": "plots/set_sizes.csv",
        "metric_study": "plots/metric_study.csv",
        "sweeps": "plots/sweeps.csv",
        "urr": "plots/urr.csv",
        "hcc": "plots/hcc.csv",
    },
    colour="#e45756",
    seeded=True,
    plots={
        "reliability": {
            "x": "confidence",
            "y": "accuracy",
            "x_label": "mean confidence of the bin",
            "y_label": "accuracy",
            "title": "Reliability: accuracy against confidence",
            "template": "qualm_reliability",
        },
        "risk_coverage": {
            "x": "coverage",
            "y": "risk",
            "x_label": "share answered",
            "y_label": "error among them",
            "title": "Risk against coverage",
            "template": "qualm_risk_coverage",
        },
        "set_sizes": {
            "x": "size",
            "y": "count",
            "x_label": "options in the set",
            "y_label": "test questions",
            "title": "Sizes of the conformal sets",
            "template": "qualm_set_sizes",
        },
        "metric_study": {
            "x": "value",
            "y": "confidence_weighted_accuracy",
            "x_label": "the other metric",
            "y_label": "confidence-weighted accuracy",
            "title": "Confidence-weighted accuracy against other metrics",
            "template": "qualm_metric_study",
        },
        "sweeps": {
            "x": "strength",
            "y": "value",
            "x_label": "strength",
            "y_label": "value",
            "title": "Strength sweeps of perturbations",
            "template": "qualm_sweeps",
        },
        "urr": {
            "x": "variant",
            "y": "estimator",
            "x_label": "perturbation",
            "y_label": "estimator",
            "title": "Uncertainty reflection rate",
            "template": "qualm_urr",
        },
        "hcc": {
            "x": "variant",
            "y": "estimator",
            "x_label": "perturbation",
            "y_label": "estimator",
            "title": "Hallucination consistency coefficient",
            "template": "qualm_hcc",
        },
    },
)


class Scoring:
    """Scores of all cells, and the inputs of rankings, tests and studies, which run when all cells are in."""

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
        self.study = perturbation.Study(params, self.metrics, stage.seed) if "variants" in params else None
        self.absent = AbsentMetrics(self.metrics, set(stage.inputs["generations"]))
        self.over_datasets, self.curves = OverDatasets(self.level), Curves()
        self.scores: list[pa.Table] = []
        self.recalibrated: list[pa.Table] = []
        self.comparisons: list[dict[str, Any]] = []
        self.effects: list[dict[str, Any]] = []
        self._tested = with_a_test(self.metrics) if "effects" in stage.outputs else []
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
        """Score the cells of one dataset, then rank and compare its models."""
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
        self, metrics: Sequence[Metric], cell: Cell, part: Slice, rows: list[dict[str, Any]]
    ) -> tuple[list[tuple[str, Measured]], list[Limits]]:
        """Measure metrics on one cell and slice, and append their rows of scores; return the values and their intervals."""
        values = evaluate(metrics, cell, part)
        limits, columns = described([measured for _, measured in values], self.level, part.bootstrap.groups)
        rows += score_rows(cell, part, values, columns)
        self.stage.count(**count_undefined(values))
        return values, limits

    def _add_to_family(self, tests: Iterable[tuple[dict[str, Any], Evidence]]) -> Iterator[dict[str, Any]]:
        """Yield the rows of tests, whose p-values are corrected together."""
        for row, evidence in tests:
            self.family.add(row, evidence)
            yield row

    def publish(self, name: str, rows: list[dict[str, Any]] | pa.Table, schema: pa.Schema) -> None:
        """Write one table of the stage's outputs."""
        file = self.stage.scratch / f"{name}.parquet"
        write_table(file, rows, schema, self.stage.provenance)
        self.stage.publish(file, self.stage.outputs[name])

    def publish_plot(self, name: str, write: Callable[[Path], None]) -> None:
        """Write the points of one plot."""
        file = self.stage.scratch / f"{name}.csv"
        write(file)
        self.stage.publish(file, self.stage.outputs[name])

    @cached_property
    def labelled(self) -> pa.Table:
        """LABELLED_SCORES of all cells."""
        return pa.concat_tables([LABELLED_SCORES.empty_table(), *self.scores])

    @cached_property
    def judges(self) -> dict[str, str | None]:
        """The judge whose ratings are the correctness of each dataset's answers."""
        return {samples.name: self.tables.judge_of_answers(samples) for samples in self.datasets}


def run(stage: Stage) -> None:
    """Score all cells; write the table, the metrics file and the plots' points."""
    with one_thread():
        found = Scoring(stage)
        for samples in found.datasets:
            found.score(samples)
        found.family.correct()
        write_scores(found)
        if "rankings" in stage.outputs:
            rank(found)
        if "recalibrated" in stage.outputs:
            recalibrate(found)
        if found.compared:
            found.publish("comparisons", found.comparisons, COMPARISONS)
        if "effects" in stage.outputs:
            found.publish("effects", found.effects, EFFECTS)
            stage.count(effects=len(found.effects))
        if "correlations" in stage.outputs:
            study_metrics(found)
        if found.study:
            study_perturbations(found, found.study)


def write_scores(found: Scoring) -> None:
    """Write the table of scores, the metrics file and the curves."""
    names = [samples.name for samples in found.datasets]
    others = (found.absent.rows(), list(found.over_datasets.rows(names)))
    labelled = pa.concat_tables([found.labelled, *(pa.Table.from_pylist(rows, schema=LABELLED_SCORES) for rows in others)])
    judged_by = set(found.judges.values())
    judges = {**found.judges, MACRO_DATASETS: judged_by.pop() if len(judged_by) == 1 else None}
    found.publish("scores", in_parts(labelled, found.stage.params, judges), SCORES)
    file = found.stage.scratch / "metrics.json"
    file.write_text(json.dumps(shown_values(labelled), indent=1, sort_keys=True) + "\n", encoding="utf-8", newline="\n")
    found.stage.publish(file, found.stage.outputs["metrics"])
    for name in FIELDS:
        found.publish_plot(name, partial(found.curves.write, name))


def rank(found: Scoring) -> None:
    """Write which models and estimators lead, and paired tests of estimators."""
    rankings, estimator_comparisons = found.rankings.tables()
    found.publish("rankings", rankings, RANKINGS)
    found.publish("estimator_comparisons", estimator_comparisons, ESTIMATOR_COMPARISONS)


def recalibrate(found: Scoring) -> None:
    """Write recalibrated confidences of answers, and tests of calibrators."""
    found.publish("recalibrated", pa.concat_tables([RECALIBRATED.empty_table(), *found.recalibrated]), RECALIBRATED)
    found.publish("calibrator_comparisons", found.calibrators.rows(), CALIBRATOR_COMPARISONS)


def study_metrics(found: Scoring) -> None:
    """Write the correlations of confidence-weighted accuracy with other metrics, and their points."""
    rows = [row for row in found.labelled.to_pylist() if not baseline_model(row["model"]) and not row["slice"].startswith(MACRO)]
    points = confidence_weighted_accuracy.points(rows, {m["label"]: m["plugin"] for m in found.stage.params["metrics"]})
    found.publish_plot("metric_study", partial(confidence_weighted_accuracy.write_points, points))
    found.publish("correlations", list(confidence_weighted_accuracy.correlations(points, found.level)), CORRELATIONS)


def study_perturbations(found: Scoring, study: perturbation.Study) -> None:
    """Write the tables of perturbations and their plots."""
    study.p = {(r["model"], r["dataset"], r["variant"], r["slice"], r["metric"]): r["p_adjusted"] for r in found.effects}
    for name, (rows, schema) in study.tables().items():
        if name not in found.stage.outputs:  # one modality has nothing to be compared with
            continue
        if schema is LABELLED_SCORES:
            found.publish(name, in_parts(pa.Table.from_pylist(rows, schema=schema), found.stage.params, found.judges), SCORES)
        else:
            found.publish(name, rows, schema)
    for name in perturbation.FIELDS:
        found.publish_plot(name, partial(study.write, name))
