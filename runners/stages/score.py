"""Stage `score`: every metric on every model, dataset, variant and slice, with intervals; rankings, paired tests and recalibrations."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from qualm.registry import MACRO, MACRO_DATASETS, baseline_model
from qualm.registry.sample import (
    CALIBRATOR_COMPARISONS,
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
from qualm.runners.results import confidence_weighted_accuracy, perturbation
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.stage import Stage
from qualm.runners.runtime.threads import one_thread
from qualm.runners.scoring.cell_scores import Scoring
from qualm.runners.scoring.measuring.curves import FIELDS
from qualm.runners.scoring.measuring.score_table import shown_values, split_labels

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


def run(stage: Stage) -> None:
    """Score every model, dataset and variant; write the tables and the plots' points."""
    with one_thread():
        found = Scoring(stage)
        study = found.study = perturbation.Study(stage.params, found.metrics, stage.seed) if "variants" in stage.params else None
        for samples in found.datasets:
            found.score(samples)
        found.family.correct()
        write_scores(found)
        if "rankings" in stage.outputs:
            rank(found)
        if "recalibrated" in stage.outputs:
            recalibrate(found)
        if found.compared:
            publish(found.stage, "comparisons", found.comparisons, COMPARISONS)
        if "effects" in stage.outputs:
            publish(found.stage, "effects", found.effects, EFFECTS)
            stage.count(effects=len(found.effects))
        if "correlations" in stage.outputs:
            study_metrics(found)
        if study:
            study_perturbations(found, study)


def write_scores(found: Scoring) -> None:
    """Write the table of scores, the metrics file and the plots' points."""
    names = [samples.name for samples in found.datasets]
    others = (found.absent.rows(), list(found.over_datasets.rows(names)))
    labelled = pa.concat_tables([found.labelled, *(pa.Table.from_pylist(rows, schema=LABELLED_SCORES) for rows in others)])
    judged_by = set(found.judges.values())
    judges = {**found.judges, MACRO_DATASETS: judged_by.pop() if len(judged_by) == 1 else None}
    publish(found.stage, "scores", split_labels(labelled, found.stage.params, judges), SCORES)
    file = found.stage.scratch / "metrics.json"
    file.write_text(json.dumps(shown_values(labelled), indent=1, sort_keys=True) + "\n", encoding="utf-8", newline="\n")
    found.stage.publish(file, found.stage.outputs["metrics"])
    for name in FIELDS:
        publish_plot(found.stage, name, partial(found.curves.write, name))


def rank(found: Scoring) -> None:
    """Write the rankings of models and estimators, and paired tests of estimators."""
    rankings, estimator_comparisons = found.rankings.tables()
    publish(found.stage, "rankings", rankings, RANKINGS)
    publish(found.stage, "estimator_comparisons", estimator_comparisons, ESTIMATOR_COMPARISONS)


def recalibrate(found: Scoring) -> None:
    """Write recalibrated confidences of answers, and tests of calibrators."""
    publish(found.stage, "recalibrated", pa.concat_tables([RECALIBRATED.empty_table(), *found.recalibrated]), RECALIBRATED)
    publish(found.stage, "calibrator_comparisons", found.calibrators.rows(), CALIBRATOR_COMPARISONS)


def study_metrics(found: Scoring) -> None:
    """Write the correlations of confidence-weighted accuracy with other metrics, and their points."""
    rows = [row for row in found.labelled.to_pylist() if not baseline_model(row["model"]) and not row["slice"].startswith(MACRO)]
    points = confidence_weighted_accuracy.points(rows, {m["label"]: m["plugin"] for m in found.stage.params["metrics"]})
    publish_plot(found.stage, "metric_study", partial(confidence_weighted_accuracy.write_points, points))
    publish(found.stage, "correlations", list(confidence_weighted_accuracy.correlations(points, found.level)), CORRELATIONS)


def study_perturbations(found: Scoring, study: perturbation.Study) -> None:
    """Write the tables of perturbations and their plots."""
    study.p = {(r["model"], r["dataset"], r["variant"], r["slice"], r["metric"]): r["p_adjusted"] for r in found.effects}
    for name, (rows, schema) in study.tables().items():
        if name not in found.stage.outputs:  # one modality has nothing to be compared with
            continue
        if schema is LABELLED_SCORES:
            publish(found.stage, name, split_labels(pa.Table.from_pylist(rows, schema=schema), found.stage.params, found.judges), SCORES)
        else:
            publish(found.stage, name, rows, schema)
    for name in perturbation.FIELDS:
        publish_plot(found.stage, name, partial(study.write, name))


def publish(stage: Stage, name: str, rows: list[dict[str, Any]] | pa.Table, schema: pa.Schema) -> None:
    """Write one table of the stage's outputs as Parquet, and publish it."""
    file = stage.scratch / f"{name}.parquet"
    write_table(file, rows, schema, stage.provenance)
    stage.publish(file, stage.outputs[name])


def publish_plot(stage: Stage, name: str, write: Callable[[Path], None]) -> None:
    """Write the points of one plot by `write`, and publish them."""
    file = stage.scratch / f"{name}.csv"
    write(file)
    stage.publish(file, stage.outputs[name])
