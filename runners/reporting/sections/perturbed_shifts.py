"""Curves against a perturbation's strength, and conformal coverage on inputs that it was not calibrated on."""

import math
from dataclasses import replace

import polars as pl

from qualm.registry import CLEAN
from qualm.runners.reporting import charts
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.figures import Figure, Panel, brief, colour_order, drawn_interval, end_or_value, model_legend
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.text import aside, between, display_name, heading_name, number, rounded, visible
from qualm.runners.results.perturbation import REFLECTION
from qualm.runners.runtime.colours import SERIES

UNCERTAINTY = "mean_uncertainty"


def sweeps(results: Report) -> list[Figure]:
    """Return figures per dataset: accuracy, URR and mean uncertainty by strength; [] if none."""
    frame = results.plots.get("sweeps", pl.DataFrame())
    if frame.is_empty():
        return []
    figures = []
    for dataset in results.datasets:
        here = frame.filter((pl.col("dataset") == dataset) & pl.col("value").is_finite())
        models = [m for m in results.models if m in set(here["model"])]
        plain = here.filter(pl.col("estimator").is_null() | ~pl.col("metric").str.contains(f"{REFLECTION}|{UNCERTAINTY}"))
        figures += _figures(say.ACCURACY_BY_STRENGTH.format(dataset=brief(dataset)), plain, "model", models, results.palette)
        for model in models:
            of = here.filter((pl.col("model") == model) & pl.col("metric").str.starts_with(REFLECTION))
            parts = _split_evenly(of["estimator"].unique(maintain_order=True).to_list(), len(SERIES))
            for place, some in enumerate(parts, 1):
                which = f" ({place} of {len(parts)})" if len(parts) > 1 else ""
                title = say.URR_BY_STRENGTH.format(model=brief(model), dataset=brief(dataset), which=which)
                figures += _figures(title, of.filter(pl.col("estimator").is_in(some)), "estimator", some, some)
        of = here.filter(pl.col("metric").str.starts_with(UNCERTAINTY))
        for estimator in of["estimator"].unique(maintain_order=True).to_list():
            title = say.UNCERTAINTY_BY_STRENGTH.format(estimator=display_name(estimator), dataset=brief(dataset))
            curves = _figures(title, of.filter(pl.col("estimator") == estimator), "model", models, results.palette)
            figures += [replace(figure, folded=True) for figure in curves]
    return figures


def _split_evenly(names: list[str], max_names: int) -> list[list[str]]:
    """Split names into as few lists of at most `max_names` as possible, of about equal size.

    >>> _split_evenly(list("abcdefghi"), 8)
    [['a', 'b', 'c', 'd', 'e'], ['f', 'g', 'h', 'i']]
    """
    many = -(-len(names) // max_names)
    each = -(-len(names) // many) if many else 1
    return [names[start : start + each] for start in range(0, len(names), each)]


def _figures(title: str, frame: pl.DataFrame, series_column: str, series_order: list[str], coloured_names: list[str]) -> list[Figure]:
    """Return a figure with a panel per sweep, in a list; [] without rows."""
    if frame.is_empty():
        return []
    figure = Figure(title, say.BANDS_IF_FEW)
    text = display_name if series_column == "estimator" else brief
    names = [text(o) for o in colour_order(series_order, coloured_names)]
    coloured = [(SERIES[i], name) for i, name in enumerate(names)] if series_column == "estimator" else None
    figure.legend = model_legend(series_order, coloured_names) if coloured is None else coloured
    body = []
    for (perturbation, parameter, metric), part in frame.group_by("perturbation", "parameter", "metric", maintain_order=True):
        measured = part.sort(series_column, "strength").to_dicts()
        rows = [{"model": text(r[series_column]), "x": r["strength"], **drawn_interval(r)} for r in measured]
        heading = visible(f"{display_name(str(perturbation))}: {parameter}", 60)
        clean = part["clean"].drop_nulls().unique().to_list()
        note = f"clean {number(clean[0], 2)}" if len(clean) == 1 else ""
        svg = charts.lines(rows, names, visible(str(parameter), 40), _axis(str(metric)))
        figure.panels.append(Panel(heading, svg, note))
        body += [[heading, text(r[series_column]), f"{r['strength']:g}", rounded(r) + aside(between(r))] for r in measured]
    figure.table = (["sweep", series_column, "strength", "value (interval)"], body)
    return [figure.trimmed()]


def _axis(metric: str) -> str:
    plugin = metric.partition("@")[0]
    return {REFLECTION: "URR", UNCERTAINTY: "mean uncertainty"}.get(plugin, heading_name(plugin))


def coverage(results: Report, variant_order: list[str]) -> list[Figure]:
    """Return figures of conformal coverage on every variant, against its target, per dataset."""
    figures = []
    alpha = {r["setting"]: r["alpha"] for r in results.thresholds.iter_rows(named=True)}
    for dataset in results.datasets:
        labels = [a for a in results.main_labels(dataset) if a.plugin == "coverage" and a.setting and a.score]
        figure = Figure(say.COVERAGE_UNDER_PERTURBATION.format(dataset=brief(dataset)), wide=True)
        rows = results.scores.filter((pl.col("dataset") == dataset) & (pl.col("slice") == "all"))
        variants = [CLEAN, *(v for v in variant_order if v in set(rows["variant"]))]
        body: dict[tuple[str, str], dict[str, str]] = {}
        short, measured, models = 0, 0, [m for m in results.models if m in set(rows["model"])]
        for label in labels:
            goal = 1 - alpha.get(label.setting, math.nan)
            part = rows.filter((pl.col("metric") == label.text) & pl.col("value").is_finite()).to_dicts()
            plain = [{"row": brief(r["variant"]), "model": brief(r["model"]), **drawn_interval(r)} for r in part]
            if all(r["value"] == 1 for r in part):  # none at all, or sets of every option
                continue
            short += sum(r["variant"] != CLEAN and end_or_value(r["high"], r) < goal for r in part)
            measured += sum(r["variant"] != CLEAN for r in part)
            colours = [brief(m) for m in colour_order(models, results.palette)]
            svg = charts.dots(plain, [brief(v) for v in variants], colours, goal, list(map(brief, models)))
            figure.panels.append(Panel(say.COVERAGE_AND_TARGET.format(score=display_name(label.score), target=number(goal, 2)), svg))
            for r in part:
                body.setdefault((r["model"], r["variant"]), {})[label.text] = rounded(r) + aside(between(r))
        if figure.panels:
            figure.legend = model_legend(models, results.palette)
            figure.caption = say.COVERAGE_WITHOUT_GUARANTEE.format(below=short, n=measured)
            shown = [a for a in labels if any(a.text in cells for cells in body.values())]
            header = ["model", "variant", *(display_name(a.score) for a in shown)]
            figure.table = (header, [[brief(m), brief(v), *(cells.get(a.text, "–") for a in shown)] for (m, v), cells in body.items()])
            figures.append(figure)
    return figures
