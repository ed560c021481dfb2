"""Stage `score`: every metric on every model, dataset, variant and slice, with intervals; rankings, paired tests and recalibrations."""

from functools import partial

from qualm.registry import MACRO, baseline_model
from qualm.registry.sample import CORRELATIONS
from qualm.runners.contracts.stages import StageKind
from qualm.runners.results import confidence_weighted_accuracy, perturbation
from qualm.runners.runtime.records import publish_table
from qualm.runners.runtime.stage import Stage
from qualm.runners.runtime.threads import one_thread
from qualm.runners.scoring.cell_scores import Scoring
from qualm.runners.scoring.measuring.curves import FIELDS
from qualm.runners.scoring.score_outputs import as_score_rows, labelled_scores, publish_metrics, publish_plot, score_tables

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
        study = found.study = (
            perturbation.PerturbationStudy(stage.params, found.metrics, stage.seed) if "variants" in stage.params else None
        )
        for samples in found.datasets:
            found.score(samples)
        found.family.correct()
        write_scores(found)
        if "effects" in stage.outputs:
            stage.count(effects=len(found.effects))
        if "correlations" in stage.outputs:
            study_metrics(found)
        if study:
            study_perturbations(found, study)


def write_scores(found: Scoring) -> None:
    """Write the tables, the metrics file and the plots' points."""
    labelled = labelled_scores(found)
    for table in score_tables(found, labelled):
        publish_table(found.stage, *table)
    publish_metrics(found.stage, labelled)
    for name in FIELDS:
        publish_plot(found.stage, name, partial(found.curves.write, name))


def study_metrics(found: Scoring) -> None:
    """Write correlations of confidence-weighted accuracy with other metrics, and their points."""
    rows = [row for row in found.labelled.to_pylist() if not baseline_model(row["model"]) and not row["slice"].startswith(MACRO)]
    points = confidence_weighted_accuracy.points(rows, {m["label"]: m["plugin"] for m in found.stage.params["metrics"]})
    publish_plot(found.stage, "metric_study", partial(confidence_weighted_accuracy.write_points, points))
    publish_table(found.stage, "correlations", list(confidence_weighted_accuracy.correlations(points, found.level)), CORRELATIONS)


def study_perturbations(found: Scoring, study: perturbation.PerturbationStudy) -> None:
    """Write the tables of perturbations and their plots."""
    study.p = {(r["model"], r["dataset"], r["variant"], r["slice"], r["metric"]): r["p_adjusted"] for r in found.effects}
    for name, (rows, schema) in study.tables().items():
        if name in found.stage.outputs:  # one modality has nothing to be compared with
            publish_table(found.stage, name, *as_score_rows(found, rows, schema))
    for name in perturbation.FIELDS:
        publish_plot(found.stage, name, partial(study.write, name))
