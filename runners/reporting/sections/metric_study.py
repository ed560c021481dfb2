"""CertainlyUncertain's figures 4 and 5: how metrics go together over models, and how models differ by category."""

from typing import Any

import polars as pl

from qualm.registry import baseline_model
from qualm.runners.reporting import charts
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.figures import Figure, Panel, brief, colour_order, drawn_interval, heading, model_legend
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.marks import is_finite
from qualm.runners.reporting.sections.strategies import answerable_only, categories
from qualm.runners.reporting.text import heading_name, number, visible
from qualm.runners.results.confidence_weighted_accuracy import STUDIED, claims
from qualm.runners.runtime.colours import SERIES
from qualm.runners.runtime.short_names import shorten_names

BARS = ("lave_idk_accuracy", "confidence_weighted_accuracy", "f1_idk")


def metric_study(results: Report) -> list[Figure]:
    """Return a figure per dataset: models by weighted accuracy against each metric."""
    frame = results.plots.get("metric_study")
    if frame is None or frame.is_empty():
        return []
    figures = []
    for dataset in results.datasets:
        rows = frame.filter(dataset=dataset, slice="all")
        if rows.is_empty() or answerable_only(results, dataset):
            continue
        models = [m for m in results.models if m in set(rows["model"])]
        legend = model_legend(models, results.palette) if len(colour_order(models, results.palette)) <= len(SERIES) else []
        figure = Figure(say.STUDY.format(dataset=brief(dataset)), say.STUDY_CAPTION, legend=legend, wide=True)
        for metric in sorted(rows["metric"].unique().to_list(), key=lambda m: ("accuracy" not in m, m)):
            part = rows.filter(pl.col("metric") == metric)
            points = [
                {"model": brief(r["model"]), "x": r["value"], "y": r[STUDIED]}
                for r in part.iter_rows(named=True)
                if is_finite(r["value"]) and is_finite(r[STUDIED])
            ]
            if points:
                label = results.labels.get(metric)
                title = heading(label) if label else heading_name(metric)
                colours = [brief(m) for m in colour_order(models, results.palette)]
                svg = charts.scatter(points, colours, title, say.WEIGHTED_ACCURACY_AXIS)
                figure.panels.append(Panel(title, svg, _correlation(results, dataset, metric)))
        if figure.panels:
            figures.append(figure)
    return figures


def study_claims(results: Report) -> list[tuple[str, str]]:
    """Return (dataset, sentence) of calibration errors' correlations, not if all answerable."""
    rows = results.correlations.to_dicts()
    return [(visible(d, 80), visible(text, 600)) for d, text in claims(rows) if not answerable_only(results, d)]


def _correlation(results: Report, dataset: str, metric: str) -> str:
    rows = results.correlations.filter(dataset=dataset, slice="all", metric=metric, studied=STUDIED).to_dicts()
    if not rows:
        return ""
    row: dict[str, Any] = rows[0]
    if row["pearson"] is None:
        return say.CORRELATION_UNDEFINED.format(n=row["n_models"])
    limits = f" ({number(row['pearson_low'], 2)} to {number(row['pearson_high'], 2)})" if row["pearson_low"] is not None else ""
    return f"r = {number(row['pearson'], 2)}{limits}, ρ = {number(row['spearman'], 2)}"


def category_figures(results: Report) -> list[Figure]:
    """Return bars by category per dataset with unanswerable questions and few enough models."""
    figures = []
    for dataset in results.datasets:
        _, leaves = categories(results, dataset)
        models = [m for m in results.models if not baseline_model(m) and any(k[0] == m and k[1] == dataset for k in results.clean)]
        labels = [a for p in BARS for a in results.main_labels(dataset) if a.plugin == p]
        if answerable_only(results, dataset) or len(leaves) < 2 or not labels:
            continue
        caption = say.BY_CATEGORY_CAPTION
        if len(models) > len(SERIES):
            models = [m for m in models if m not in results.abstaining]
            caption += say.STUDY_LEFT_OUT
        if len(models) > len(SERIES):
            continue
        legend = model_legend(models, results.palette)
        figure = Figure(say.BY_CATEGORY.format(dataset=brief(dataset)), caption, legend=legend, wide=True)
        groups = dict(zip(leaves, shorten_names(leaves, 24, lambda leaf: visible(leaf.rpartition("/")[2], 24)), strict=True))
        for label in labels:
            rows = []
            for leaf, group in groups.items():
                for model in models:
                    row = results.clean.get((model, dataset, f"category={leaf}", label.text))
                    if row is not None and is_finite(row["value"]):
                        rows.append({"group": group, "model": brief(model), **drawn_interval(row)})
            if rows:
                svg = charts.bars(rows, list(groups.values()), [brief(m) for m in colour_order(models, results.palette)])
                figure.panels.append(Panel(heading(label), svg))
        if figure.panels:
            figures.append(figure)
    return figures
