"""Stage `score`: every metric on every model, dataset, variant and slice, with intervals and counts of what was left out."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry import DATASETS, MACRO, MACRO_DATASETS, baseline_model
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
from qualm.runners.runtime.precision import result
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.stage import Stage
from qualm.runners.runtime.threads import one_thread
from qualm.runners.scoring import paired_tests
from qualm.runners.scoring import perturbation_tests as effects_of
from qualm.runners.scoring.bootstrap import Bootstrap, PartOf
from qualm.runners.scoring.calibration.answers import recalibrated_answers
from qualm.runners.scoring.calibration.comparisons import Comparisons
from qualm.runners.scoring.calibration.fits import RAW
from qualm.runners.scoring.cells import PAIRED, Cell
from qualm.runners.scoring.families import Family
from qualm.runners.scoring.limits import Limits
from qualm.runners.scoring.measuring.curves import FIELDS, Curves
from qualm.runners.scoring.measuring.evaluate import evaluate, why_absent
from qualm.runners.scoring.measuring.intervals import described
from qualm.runners.scoring.measuring.measured import Measured, Slice, or_null
from qualm.runners.scoring.measuring.metrics import Metric, read_metrics
from qualm.runners.scoring.measuring.over_datasets import OverDatasets
from qualm.runners.scoring.measuring.read_cells import read_cells
from qualm.runners.scoring.measuring.score_table import in_parts
from qualm.runners.scoring.measuring.tables import Tables
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

Judges = Mapping[str, str | None]
"""Data set -> the judge whose ratings are the correctness of its answers."""
ALL = perturbation.ALL
CHANGED = perturbation.CHANGED
RANKED = ("rankings", "estimator_comparisons")
RESAMPLES = "resamples undefined"
"""Counter of the resamples in which a score has no value, over all scores."""
MeasuredSlice = tuple[Slice, list[tuple[str, Measured]], list[Limits], list[dict[str, Any]]]
"""A slice, the values of metrics on it by label, their intervals and their columns of LABELLED_SCORES."""
KEEP = 48_000_000
"""Counts of resamples of one dataset that are kept for its next cell (384 MB); beyond, they are drawn again."""


def run(stage: Stage) -> None:
    """Score all cells; write the table, the metrics file and the plots' points."""
    with one_thread():
        _run(stage)


def _run(stage: Stage) -> None:
    metrics = read_metrics(stage.params["metrics"])
    interval = stage.params["interval"]
    datasets = [read_scored(stage, name, folder) for name, folder in sorted(stage.inputs["datasets"].items())]
    averaged = stage.params.get("macro_averages", [])
    fields = [name for name in averaged if name != DATASETS]
    check_fields("slices", [part for crossed in stage.params["slices"] for part in crossed.split(CROSS)], datasets)
    check_fields("macro_averages", [part for crossed in fields for part in crossed.split(CROSS)], datasets)
    for metric in metrics:
        check_fields(f"metric {metric.label}", [field_of(c) for c in metric.reads if c.startswith((GROUP_OF, CODE_OF))], datasets)
    tables = Tables(stage, datasets)
    lacking = Lacking(metrics, set(stage.inputs["generations"]))
    study = perturbation.Study(stage.params, metrics, stage.seed) if "variants" in stage.params else None
    rows: list[pa.Table] = []
    tests: list[dict[str, Any]] = []
    compare = stage.params.get("compare")
    compared = compare or stage.params.get("tests") or {"correction": "none", "family": "study"}
    family = Family(compared["correction"], compared["family"])
    rankings = Rankings(metrics, interval["level"], stage.params.get("family", compared["family"]))
    calibrators = Comparisons(metrics, interval["level"], stage.params.get("family", compared["family"]))
    recalibrated: list[pa.Table] = []
    grid: list[dict[str, Any]] = []
    tested = effects_of.with_a_test(metrics) if "effects" in stage.outputs else []
    paired = [m for m in metrics if PAIRED & set(m.reads)]
    curves = Curves()
    over_datasets = OverDatasets(interval["level"])
    for samples in datasets:
        clean: dict[str, Cell] = {}
        slices = make_slices(samples, stage.params["slices"], interval["bootstrap"], stage.seed, fields)
        for cell in read_cells(stage, samples, tables):
            curves.add(cell)
            lacking.add(cell)
            recalibrated += [recalibrated_answers(cell, of) for of in cell.recalibrations if of.method != RAW]
            if compare and cell.variant == CLEAN:
                clean[cell.model] = cell
            computed = [measure(metrics, cell, part, interval["level"]) for part in slices]
            rows.append(_score_rows(stage, cell, computed))
            for part, values, limits, _ in computed:
                if "rankings" in stage.outputs:
                    rankings.add(cell, part, values, part is slices[0], cell.variant == CLEAN)
                if study and part.label == ALL:
                    study.add(cell, part.bootstrap.groups, values, limits)
                calibrators.add(cell, part, values, limits)
                if DATASETS in averaged:
                    over_datasets.add(cell, part, values, limits)
                if tested and not part.macro and "clean_correct" in cell.columns:
                    grid += _effects(stage, tested, cell, part, values, family)
            for part in changed_slices(cell, slices[0]):
                found = measure(paired, cell, part, interval["level"])
                _, values, limits, _ = found
                rows.append(_score_rows(stage, cell, [found]))
                if study:
                    study.add_changed(cell, values, limits)
                if tested:
                    grid += _effects(stage, [m for m in tested if effects_of.is_of_correlation(m)], cell, part, values, family)
            del cell  # before the next one is read; values hold its columns too
            computed, values, limits = [], [], []
        if compare:
            tests += _compare(stage, metrics, clean, slices, family)
        rankings.rank()
    family.correct()
    of_datasets = pa.concat_tables([LABELLED_SCORES.empty_table(), *rows])
    rows.append(pa.Table.from_pylist(lacking.rows(), schema=LABELLED_SCORES))
    rows.append(pa.Table.from_pylist(list(over_datasets.rows([samples.name for samples in datasets])), schema=LABELLED_SCORES))
    judges = {samples.name: tables.judge_of_answers(samples) for samples in datasets}
    whole = pa.concat_tables(rows)
    _write(stage, whole, curves, judges)
    if "rankings" in stage.outputs:
        for name, table, schema in zip(RANKED, rankings.tables(), (RANKINGS, ESTIMATOR_COMPARISONS), strict=True):
            _publish(stage, name, table, schema)
    if "recalibrated" in stage.outputs:
        _publish(stage, "recalibrated", pa.concat_tables([RECALIBRATED.empty_table(), *recalibrated]), RECALIBRATED)
        _publish(stage, "calibrator_comparisons", calibrators.rows(), CALIBRATOR_COMPARISONS)
    if compare:
        _publish(stage, "comparisons", tests, COMPARISONS)
    if "effects" in stage.outputs:
        _publish(stage, "effects", grid, EFFECTS)
        stage.count(effects=len(grid))
    if "correlations" in stage.outputs:
        _study(stage, of_datasets.to_pylist())
    if study:
        study.p = {(r["model"], r["dataset"], r["variant"], r["slice"], r["metric"]): r["p_adjusted"] for r in grid}
        _study_perturbations(stage, study, judges)


def measure(metrics: Sequence[Metric], cell: Cell, part: Slice, level: float) -> MeasuredSlice:
    """Evaluate the metrics that apply to a cell on one slice."""
    values = evaluate(metrics, cell, part)
    return part, values, *described([measured for _, measured in values], level, part.bootstrap.groups)


def changed_slices(cell: Cell, whole: Slice) -> Iterator[Slice]:
    """Yield the slice of samples whose perturbed input differs from the clean one, unless all do."""
    if cell.changed is not None:
        rows = np.flatnonzero(cell.changed)
        yield Slice(CHANGED, rows, PartOf(whole.bootstrap, whole.bootstrap.groups_of(rows)))


def _score_rows(stage: Stage, cell: Cell, computed: Sequence[MeasuredSlice]) -> pa.Table:
    """Return a cell's rows of LABELLED_SCORES, and add to the stage's counters."""
    counts: Counter[str] = Counter()
    rows = []
    for part, values, _, numbers in computed:
        same: dict[str, Any] = {"model": cell.model, "dataset": cell.samples.name, "variant": cell.variant, "slice": part.label}
        same |= {"collapsed": cell.collapsed or None, "disputed": cell.disputed or None}
        for (label, measured), of_value in zip(values, numbers, strict=True):
            undefined = bool(np.isnan(measured.value))
            counts.update({"scores": 1, "undefined": undefined, RESAMPLES: measured.undefined})
            if undefined:
                condition = measured.why.partition(";")[0].removeprefix("undefined ")
                counts[f"undefined ({condition})"] += 1
            rows.append(same | {"metric": label} | of_value)
    stage.count(**counts)
    return pa.Table.from_pylist(rows, schema=LABELLED_SCORES)


def _effects(
    stage: Stage, tested: Sequence[Metric], cell: Cell, part: Slice, values: Sequence[tuple[str, Measured]], family: Family
) -> Iterator[dict[str, Any]]:
    """Yield rows of EFFECTS, each handed to the family that corrects it."""
    same = {"model": cell.model, "dataset": cell.samples.name, "variant": cell.variant, "slice": part.label}
    counts = {label: measured.n for label, measured in values}
    for one in effects_of.effects(tested, cell, part):
        numbers = {name: or_null(getattr(one, name)) for name in ("value", "reference", "p")}
        row = same | {"metric": one.metric, "n": counts[one.metric]} | numbers
        family.add(row, one.evidence)
        yield row


class Lacking:
    """Metrics of the spec that no answer of a model has a value for: a row each, with the reason."""

    def __init__(self, metrics: list[Metric], models: Collection[str]) -> None:
        """Collect for the spec's own `models`; models with an abstention rule are left out."""
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
        none = {"value": None, "low": None, "high": None, "n": 0, "n_unscored": 0}
        return [
            {"model": model, "dataset": dataset, "variant": variant, "slice": ALL, "metric": label, "why": why, **none}
            for (model, label), by_dataset in self.reasons.items()
            if (model, label) not in self.measured
            for dataset, (variant, why) in by_dataset.items()
        ]


def _compare(stage: Stage, metrics: list[Metric], cells: dict[str, Cell], slices: list[Slice], family: Family) -> list[dict[str, Any]]:
    """Return every pair of models that is asked for, on every slice of one dataset."""
    compare, comparisons = stage.params["compare"], list[dict[str, Any]]()
    level = stage.params["interval"]["level"]
    pairs = paired_tests.pairs_of(compare, list(cells))
    asked = [(part, pair, metrics) for part in slices for pair in pairs]
    by = [metric for metric in metrics if metric.plugin.name in paired_tests.STUDIED]
    tested = {frozenset(pair) for pair in pairs}
    studied = [(a, b) for a, b in compare.get("studied", ()) if {a, b} <= cells.keys() and {a, b} not in tested]
    asked += [(slices[0], pair, by) for pair in studied]
    for part, (a, b), chosen in asked:
        same = {"a": a, "b": b, "dataset": cells[a].samples.name, "slice": part.label}
        for test in paired_tests.compare(chosen, cells[a], cells[b], part, level, compare["margin"]):
            numbers = {name: or_null(getattr(test, name)) for name in paired_tests.NUMBERS}
            shares = {"scored_share_a": or_null(test.share_a), "scored_share_b": or_null(test.share_b)}
            about: dict[str, Any] = {"n": test.n, "higher_is_better": test.higher_is_better}
            about |= {"why": test.why or None, "compared_by": test.compared_by or None}
            comparisons.append(same | {"metric": test.metric} | numbers | about | shares)
            family.add(comparisons[-1], test.evidence)
    stage.count(comparisons=len(comparisons))
    return comparisons


def _study(stage: Stage, rows: list[dict[str, Any]]) -> None:
    rows = [row for row in rows if not baseline_model(row["model"]) and not row["slice"].startswith(MACRO)]
    points = confidence_weighted_accuracy.points(rows, {m["label"]: m["plugin"] for m in stage.params["metrics"]})
    file = stage.scratch / "metric_study.csv"
    confidence_weighted_accuracy.write_points(points, file)
    stage.publish(file, stage.outputs["metric_study"])
    _publish(
        stage, "correlations", list(confidence_weighted_accuracy.correlations(points, stage.params["interval"]["level"])), CORRELATIONS
    )


def _study_perturbations(stage: Stage, study: perturbation.Study, judges: Judges) -> None:
    for name, (rows, schema) in study.tables().items():
        if name not in stage.outputs:  # one modality has nothing to be compared with
            continue
        if schema is LABELLED_SCORES:
            _publish_scores(stage, name, pa.Table.from_pylist(rows, schema=schema), judges)
        else:
            _publish(stage, name, rows, schema)
    for name in perturbation.FIELDS:
        file = stage.scratch / f"{name}.csv"
        study.write(name, file)
        stage.publish(file, stage.outputs[name])


def make_slices(samples: Samples, fields: list[str], times: int, seed: int, averaged: Sequence[str] = ()) -> list[Slice]:
    """Return all rows, the rows of each value of each field, and macro averages over the values of fields, with their resamples.

    The draws depend on the seed, the dataset and the slice alone: every model and variant sees the same resamples, so
    differences between them can be paired. Macro averages have the resamples of all rows.
    """
    parts = [(ALL, np.arange(samples.n))]
    for field in fields:
        parts += [(f"{field}={value}", rows) for value, rows in _crossed(samples, field.split(CROSS)).items()]
    slices: list[Slice] = []
    budget = KEEP
    for label, rows in parts:
        bootstrap = Bootstrap(samples.groups[rows], times, seed, samples.name, label)
        if slices:
            bootstrap.within(slices[0].bootstrap)
        budget -= bootstrap.groups * times
        bootstrap.keep = budget >= 0
        slices.append(Slice(label, rows, bootstrap))
    for field in averaged:
        if len(rows := np.flatnonzero(samples.partition(field)[0] >= 0)):
            whole = slices[0].bootstrap
            slices.append(Slice(f"{MACRO}{field}", rows, PartOf(whole, whole.groups_of(rows)), field))
    return slices


def _crossed(samples: Samples, fields: list[str]) -> dict[str, NDArray[np.int64]]:
    """Yield each occurring combination of field values and its rows."""
    rows_of = _values(samples, fields[0])
    for field in fields[1:]:
        both = {f"{a}{CROSS}{b}": np.intersect1d(x, y) for a, x in rows_of.items() for b, y in _values(samples, field).items()}
        rows_of = {value: rows for value, rows in both.items() if len(rows)}
    return rows_of


def _values(samples: Samples, field: str) -> dict[str, NDArray[np.int64]]:
    """Yield each value of a field and its rows; for categories also every parent in the taxonomy.

    `epistemic` comes before `epistemic/knowledge` and holds its rows.
    """
    rows: dict[tuple[str, ...], list[int]] = {}
    for i, value in enumerate(samples.values(field)):
        if value is not None:
            path = tuple(value.split("/")) if field == "category" else (value,)
            for depth in range(1, len(path) + 1):
                rows.setdefault(path[:depth], []).append(i)
    return {"/".join(path): np.array(rows[path], dtype=np.int64) for path in sorted(rows)}


def _publish(stage: Stage, name: str, rows: list[dict[str, Any]] | pa.Table, schema: pa.Schema) -> None:
    file = stage.scratch / f"{name}.parquet"
    write_table(file, rows, schema, stage.provenance)
    stage.publish(file, stage.outputs[name])


def _publish_scores(stage: Stage, name: str, rows: pa.Table, judges: Judges) -> None:
    _publish(stage, name, in_parts(rows, stage.params, judges), SCORES)


def _write(stage: Stage, rows: pa.Table, curves: Curves, judges: Judges) -> None:
    judged_by = set(judges.values())
    _publish_scores(stage, "scores", rows, {**judges, MACRO_DATASETS: judged_by.pop() if len(judged_by) == 1 else None})
    nested: dict[str, dict[str, dict[str, float]]] = {}
    is_shown = pc.or_(pc.equal(rows["slice"], ALL), pc.starts_with(rows["slice"], MACRO))
    main = rows.filter(pc.and_(pc.equal(rows["variant"], CLEAN), is_shown))
    for row in main.select(["model", "dataset", "slice", "metric", "value"]).to_pylist():
        if row["value"] is not None:
            place = row["dataset"] if row["slice"] == ALL else f"{row['dataset']} {row['slice']}"
            nested.setdefault(row["model"], {}).setdefault(place, {})[row["metric"]] = result(row["value"])
    file = stage.scratch / "metrics.json"
    file.write_text(json.dumps(nested, indent=1, sort_keys=True) + "\n", encoding="utf-8", newline="\n")
    stage.publish(file, stage.outputs["metrics"])
    for name in FIELDS:
        file = stage.scratch / f"{name}.csv"
        curves.write(name, file)
        stage.publish(Path(file), stage.outputs[name])
