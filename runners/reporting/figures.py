"""The figures of one dataset: which rows go into which drawing. A figure without panels is not shown."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from qualm.registry import MODALITIES
from qualm.registry.sample import CLEAN
from qualm.runners.reporting import charts
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.section import Section
from qualm.runners.reporting.text import Label, aside, between, display_name, natural, rounded, visible
from qualm.runners.runtime.colours import SERIES
from qualm.runners.scoring.cells import NO_REFERENCE

MAX_PANELS = 60
"""Panels of one figure; beyond them the page would grow without being read."""
MAX_ROWS = 40
"""Values of a slice, or variants, that a figure has rows for."""
MAX_LINES = 500
"""Lines of the table below a figure: one per row and model."""


EXPECTED = ("expected_low", "expected_high")
"""Columns of reliability diagrams: the range in which a calibrated bin's accuracy is expected."""


@dataclass
class Panel:
    """One drawing with its heading."""

    title: str
    svg: str
    note: str = ""


@dataclass
class Figure:
    """Panels side by side under one caption."""

    title: str
    caption: str = ""
    panels: list[Panel] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)
    """(colour, text); colour is a CSS value of ours."""
    wide: bool = False
    broad: bool = False
    """True if its panels need half a page each."""
    table: tuple[list[str], list[list[str]]] | None = None
    folded: bool = False
    """Behind its title until that is pressed: one of many of its kind."""

    def trimmed(self, most: int = MAX_PANELS) -> Figure:
        if len(self.panels) > most:
            self.caption += say.PANELS_SHOWN.format(shown=most, n=len(self.panels))
            self.panels = self.panels[:most]
        return self


def figure_id(*parts: str) -> str:
    """Return an HTML id for a drawing: equal for equal parts, safe for any text."""
    return "f" + hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:10]


def brief(text: str, longest: int = 40) -> str:
    return visible(text, longest)


def colour_order(models: list[str], palette: list[str]) -> list[str]:
    """Return the palette's first models if they include `models`, else all, in one colour."""
    first = palette[: len(SERIES)]
    return first if set(models) <= set(first) else palette


def model_legend(models: list[str], palette: list[str]) -> list[tuple[str, str]]:
    """Return (colour, text) pairs: one per model, two if these lack colours, [] for one model."""
    order = colour_order(models, palette)
    if len(order) > len(SERIES):
        return [("var(--accent)", say.MODEL_TICKS.format(n=len(models))), ("var(--ink)", say.THEIR_MEAN)]
    return [(SERIES[order.index(m)], brief(m)) for m in models] if len(order) > 1 else []


def merge_figures(figures: Mapping[str, Figure]) -> Figure | None:
    """Return one figure with the panels of all datasets; None if there are no panels.

    Several datasets head their panels with their names. The figure of a single one is returned as it is.
    """
    drawn = {dataset: figure for dataset, figure in figures.items() if figure.panels}
    if not drawn:
        return None
    first = next(iter(drawn.values()))
    if len(figures) == 1:
        return first
    captions = dict.fromkeys(figure.caption for figure in drawn.values())
    legend = dict.fromkeys(entry for figure in drawn.values() for entry in figure.legend)
    several = {dataset: len({panel.title for panel in figure.panels}) > 1 for dataset, figure in drawn.items()}
    panels = [
        replace(panel, title=" · ".join(filter(None, (brief(dataset), panel.title if any(several.values()) or first.wide else ""))))
        for dataset, figure in drawn.items()
        for panel in figure.panels
    ]
    tables = [(dataset, *figure.table) for dataset, figure in drawn.items() if figure.table]
    head = list(dict.fromkeys(name for _, names, _ in tables for name in names))
    rows = [[brief(d), *(dict(zip(names, row, strict=True)).get(name, "–") for name in head)] for d, names, of in tables for row in of]
    table = (["dataset", *head], rows) if tables else None
    return replace(first, caption=" ".join(captions), panels=panels, legend=list(legend), table=table)


def reliability(results: Report, dataset: str) -> Figure:
    """Return a figure with one reliability diagram per model."""
    figure = Figure(
        "Reliability",
        say.RELIABILITY,
        legend=[("var(--accent)", "accuracy"), ("var(--wrong)", "over-confident"), ("var(--c5)", "under-confident")],
    )
    frame = results.plots.get("reliability", pl.DataFrame(schema=["model", "dataset"]))
    if "setting" in frame.columns and frame["setting"].drop_nulls().n_unique() > 1:
        frame = frame.filter(pl.col("setting").is_null() | (pl.col("setting") == results.main_setting))
    panels: list[tuple[str, list[dict[str, Any]]]] = []
    for model in results.models:
        rows = frame.filter(model=model, dataset=dataset)
        if rows.is_empty() or (rows := rows.filter((pl.col("n") > 0) & pl.col("accuracy").is_finite())).is_empty():
            continue
        names = ["bin_low", "bin_high", "accuracy", "confidence", "n", *(c for c in EXPECTED if c in rows.columns)]
        panels.append((model, rows.select(names).to_dicts()))
    most = max((row["n"] for _, bins in panels for row in bins), default=0)
    for model, bins in panels:
        figure.panels.append(Panel(brief(model), charts.reliability(bins, most), _metric_note(results, model, dataset, "ece", "ECE")))
    expected = any(row.get("expected_low") is not None for _, bins in panels for row in bins)
    figure.caption += say.CALIBRATED_BINS if expected else ""
    figure.caption += say.CALIBRATION_P if any(", p " in panel.note for panel in figure.panels) else ""
    figure.caption += say.ANSWERS_BELOW
    return figure.trimmed()


def _metric_note(results: Report, model: str, dataset: str, plugin: str, metric_name: str) -> str:
    """Return a metric as text, `ECE 0.031`, with any p-value behind it; "" if not measured."""
    for label in sorted(results.main_labels(dataset), key=lambda a: "rows=all" in a.sweep):
        value = results.value(model, dataset, label.text)
        if label.plugin == plugin and not label.estimator and value is not None and math.isfinite(value):
            row = results.cells[model, dataset, label.text]
            p = row.get("p_null")
            return f"{metric_name} {rounded(row)}" + ("" if p is None else f", p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}")
    return ""


def risk_coverage(results: Report, dataset: str) -> Figure:
    """Return a figure of risk-coverage curves, one panel per model."""
    figure = Figure(
        say.RISK_AND_COVERAGE,
        say.RISK_AND_COVERAGE_CAPTION,
        legend=[("var(--accent)", say.BY_CONFIDENCE), ("var(--right)", say.ORACLE), ("var(--muted)", say.RANDOM_ORDER)],
    )
    frame = results.plots.get("risk_coverage", pl.DataFrame(schema={"model": pl.String, "dataset": pl.String, "risk": pl.Float64}))
    frame = frame.filter((pl.col("dataset") == dataset) & pl.col("risk").is_finite())
    most = 0.0 if frame.is_empty() else float(frame["risk"].max())  # type: ignore[arg-type]
    for model in results.models:
        if (rows := frame.filter(model=model, dataset=dataset)).is_empty():
            continue
        rows = rows.sort("coverage")
        right = results.answers.filter(model=model, dataset=dataset)["correct"].drop_nulls().drop_nans().to_numpy()
        total = float(rows["risk"][-1]) if rows["coverage"][-1] > 0.999 else None
        thin = rows.gather_every(max(1, rows.height // 120)).select("coverage", "risk").to_dicts()
        svg = charts.risk_coverage(thin, _oracle(right), total, most)
        figure.panels.append(Panel(brief(model), svg, _metric_note(results, model, dataset, "risk_coverage", "AURC")))
    return figure.trimmed()


def _oracle(correct: np.ndarray) -> list[dict[str, float]]:
    if not len(correct):
        return []
    risk = 1 - np.cumsum(np.sort(correct)[::-1]) / np.arange(1, len(correct) + 1)
    places = np.unique(np.linspace(0, len(correct) - 1, 60).round().astype(int))
    return [{"coverage": (i + 1) / len(correct), "risk": float(risk[i])} for i in places.tolist()]


def set_sizes(results: Report, dataset: str) -> Figure:
    """Return a figure with a set-size histogram per model; no panels if all sizes are equal."""
    figure = Figure(say.SET_SIZES, say.SET_SIZES_CAPTION.format(setting=brief(results.main_setting)) if results.main_setting else "")
    frame = results.plots.get("set_sizes", pl.DataFrame(schema=["model", "dataset", "setting"]))
    frame = frame.filter((pl.col("dataset") == dataset) & (pl.col("setting") == results.main_setting))
    scores = frame["score"].unique(maintain_order=True).to_list()[: len(SERIES)] if not frame.is_empty() else []
    values = frame["size"].to_numpy() if scores else np.zeros(1)
    sizes = range(int(values.min()), int(values.max()) + 1)
    if scores:
        share = pl.col("count") / pl.col("count").sum().over("model", "score")
        frame = frame.filter(pl.col("score").is_in(scores)).with_columns(share=share, size=pl.col("size").cast(pl.Int64))
    if len(sizes) == 1:  # the tables say it
        return figure
    most = float(frame["share"].fill_nan(None).max() or 0) if scores else 0.0  # type: ignore[arg-type]
    for model in results.models:
        rows = frame.filter(pl.col("model") == model) if scores else pl.DataFrame()
        if rows.is_empty() or not rows["count"].sum():
            continue
        svg = charts.set_sizes(rows.select("size", "score", "share").to_dicts(), scores, sizes, most)
        figure.panels.append(Panel(brief(model), svg))
    figure.legend = [(SERIES[i], brief(s).upper()) for i, s in enumerate(scores)]
    return figure.trimmed()


def right_and_wrong(results: Report, dataset: str) -> Figure:
    """Return a figure of the uncertainty of right and wrong answers, by model and estimator."""
    figure = Figure(say.SEPARATION, say.SEPARATION_CAPTION, legend=[("var(--right)", "right"), ("var(--wrong)", "wrong")], folded=True)
    histograms: dict[tuple[str, str], list[dict[str, Any]]] = {}
    quartiles: dict[str, list[pl.DataFrame]] = {}
    for model in results.models:
        for (estimator,), rows in _judged_values(results, model, dataset).group_by("estimator", maintain_order=True):
            histograms[str(estimator), model] = _histogram(rows)
            quartiles.setdefault(str(estimator), []).append(_uncertainty_quantiles(rows, model))
    estimators = [name for name in results.estimators.get(dataset, [OWN]) if name in quartiles]
    models = [m for m in results.models if any((e, m) in histograms for e in estimators)]
    if len(models) * len(estimators) > 12:
        for estimator in estimators:
            named = pl.concat(quartiles[estimator]).sort("model", "verdict").to_dicts()
            figure.panels.append(Panel(display_name(estimator), charts.quartiles(named, [brief(m) for m in models])))
        figure.caption += say.SEPARATION_QUANTILES
        figure.wide = True
        return figure.trimmed()
    for estimator in estimators:
        for model in models:
            if rows_of := histograms.get((estimator, model)):
                svg = charts.right_and_wrong(rows_of, "uncertainty")
                figure.panels.append(Panel(display_name(estimator), svg, brief(model) if len(models) > 1 else ""))
    return figure.trimmed()


OWN = "1 − confidence"
"""The uncertainty of a model whose dataset has no estimators."""


def _judged_values(results: Report, model: str, dataset: str) -> pl.DataFrame:
    """Return (estimator, value, verdict) rows of a model's scored answers, or by confidence."""
    verdicts = results.answers.filter(model=model, dataset=dataset).filter(pl.col("correct").is_finite())
    if dataset in results.estimators:
        values = results.uncertainties(model, dataset).filter(pl.col("value").is_finite())
        frame = values.join(verdicts.select("sample_id", "correct"), on="sample_id", maintain_order="left")
    else:
        frame = verdicts.with_columns(estimator=pl.lit(OWN), value=1 - pl.col("confidence"))
    verdict = pl.when(pl.col("correct") >= 0.5).then(pl.lit("right")).otherwise(pl.lit("wrong"))
    return frame.filter(pl.col("value").is_finite()).select("estimator", "value", verdict=verdict)


def _uncertainty_quantiles(rows: pl.DataFrame, model: str) -> pl.DataFrame:
    """Return a row of five uncertainty quantiles for right answers, and one for wrong answers."""
    ends = [pl.col("value").quantile(q / 100, "linear").alias(f"q{q}") for q in (10, 25, 50, 75, 90)]
    return rows.group_by("verdict", maintain_order=True).agg(*ends).with_columns(model=pl.lit(brief(model)))


def _histogram(frame: pl.DataFrame) -> list[dict[str, Any]]:
    values = frame["value"].to_numpy()
    if not len(values):
        return []
    low, high = np.quantile(values, [0.0, 0.99])
    if high <= low:
        high = low + max(abs(low) * 1e-3, 1e-6)
    bins = int(np.clip(np.sqrt(len(values)), 8, 24))
    edges = np.linspace(low, high, bins + 1)
    rows = []
    for verdict, sign in (("right", 1), ("wrong", -1)):
        chosen = frame.filter(pl.col("verdict") == verdict)["value"].to_numpy()
        if not len(chosen):
            continue
        counts = np.histogram(np.clip(chosen, low, high), edges)[0] / len(chosen)
        for a, b, c in zip(edges[:-1], edges[1:], counts, strict=True):
            rows += [{"low": float(a), "high": float(b), "share": sign * float(c), "verdict": verdict}] if c > 0 else []
    return rows


def slices(results: Report, dataset: str) -> list[Figure]:
    """Return one figure of headline metrics per slice field with at least two values."""
    frame = results.scores.filter((pl.col("dataset") == dataset) & (pl.col("variant") == CLEAN) & (pl.col("slice") != "all"))
    fields = frame["slice"].str.split("=").list.first().unique(maintain_order=True).to_list()
    figures = []
    for field_name in fields:
        rows = frame.filter(pl.col("slice").str.starts_with(f"{field_name}="))
        rows = rows.with_columns(row=pl.col("slice").str.slice(len(field_name) + 1))
        order = sorted(rows["row"].unique().to_list(), key=natural)
        if rows.filter(pl.col("value").is_finite())["row"].n_unique() < 2:
            continue
        figures.append(_dots(results, dataset, rows, order, f"By {display_name(field_name)}"))
        figures[-1].folded = len(results.models) > len(SERIES)  # many ticks without names: the table says more
    return figures


def variants(results: Report, dataset: str) -> Figure:
    """Return a figure of headline metrics by perturbation, beside clean; empty without one."""
    frame = results.scores.filter((pl.col("dataset") == dataset) & (pl.col("slice") == "all")).with_columns(row=pl.col("variant"))
    modality = {v["variant"]: MODALITIES.index(v["modality"]) for v in results.stage.params.get("variants") or ()}
    order = sorted(frame["variant"].unique().to_list(), key=lambda v: (v != CLEAN, modality.get(v, 0), natural(v)))
    if len(order) < 2:
        return Figure(say.BY_VARIANT)
    figure = _dots(results, dataset, frame, order, say.BY_VARIANT)
    unscored = [v for v in order if v in results.stage.params.get("unscored", ())]
    if unscored:
        figure.caption += say.CORRECTNESS_UNDEFINED_UNDER.format(variants=", ".join(map(brief, unscored)), why=NO_REFERENCE)
    return figure


def _dots(results: Report, dataset: str, frame: pl.DataFrame, order: list[str], title: str) -> Figure:
    metrics, of = set(frame["metric"].unique()), set(frame["model"].unique())
    labels = [a for a in results.headline(dataset) if a.text in metrics]
    models = [m for m in results.models if m in of]
    figure = Figure(title, say.DOT_AND_ITS_INTERVAL, legend=model_legend(models, results.palette), wide=True)
    cut = say.ROWS_SHOWN.format(shown=MAX_ROWS, n=len(order), where=results.stage.inputs["scores"])
    also, order = ([cut] if len(order) > MAX_ROWS else []), order[:MAX_ROWS]
    if any(a.plugin == "auroc" and a.estimator for a in labels) and len(_estimators(results, dataset)) > 1:
        also.insert(0, say.BEST_AUROC)
    figure.caption = " ".join([figure.caption, *also])
    for label in labels:
        rows = frame.filter((pl.col("metric") == label.text) & pl.col("value").is_finite() & pl.col("row").is_in(order))
        if rows.is_empty() or (label.plugin in ("coverage", "set_size") and rows["value"].n_unique() == 1):
            continue
        plain = [{"row": brief(r["row"]), "model": brief(r["model"]), **drawn_interval(r)} for r in rows.iter_rows(named=True)]
        if len(colour_order(models, results.palette)) > len(SERIES):
            note = say.TICKS_AND_MEAN
            figure.caption = " ".join([note, *also])
        reference = results.value(models[0], dataset, label.text) if len(models) == 1 else None
        colours = [brief(m) for m in colour_order(models, results.palette)]
        svg = charts.dots(plain, [brief(o) for o in order], colours, reference, [brief(m) for m in models])
        figure.panels.append(Panel(heading(label), svg))
    head, lines = _numbers_table(frame, order, labels)
    if len(lines) > MAX_LINES:
        figure.caption += say.LINES_SHOWN.format(shown=MAX_LINES, n=len(lines), where=results.stage.inputs["scores"])
    figure.table = head, lines[:MAX_LINES]
    return figure


def _estimators(results: Report, dataset: str) -> list[Label]:
    return [a for a in results.main_labels(dataset) if a.plugin == "auroc" and a.estimator]


def heading(label: Label) -> str:
    inside = label.score or label.estimator
    return f"{label.title}{f' ({display_name(inside)})' if inside else ''} {label.arrow}".strip()


def end_or_value(value: float | None, row: Mapping[str, Any]) -> float:
    """Return an interval's end as a number; the row's value if it is None or not finite."""
    return float(row["value"]) if value is None or not math.isfinite(value) else value


def drawn_interval(row: Mapping[str, Any]) -> dict[str, float]:
    """Return a row's `value`, `low` and `high` for a chart, each end by `end_or_value`."""
    return {"value": row["value"], "low": end_or_value(row["low"], row), "high": end_or_value(row["high"], row)}


def _numbers_table(frame: pl.DataFrame, row_order: list[str], labels: list[Label]) -> tuple[list[str], list[list[str]]]:
    """Return (headings, rows of texts by `row_order` and model) of the table of numbers."""
    models = frame["model"].unique(maintain_order=True).to_list()
    points = frame.filter(pl.col("metric").is_in([a.text for a in labels]) & pl.col("row").is_in(row_order))
    by_cell = {(r["row"], r["model"], r["metric"]): r for r in points.iter_rows(named=True)}
    rows = []
    for row in row_order:
        for model in models:
            cells = [by_cell.get((row, model, a.text)) for a in labels]
            counts = next((f"{c['n']:,}" + (f" (+{c['n_unscored']:,})" if c["n_unscored"] else "") for c in cells if c), "–")
            rows.append([brief(row), brief(model), *(_text(c) for c in cells), counts])
    return ["", "model", *(heading(a) for a in labels), "n (+ unscored)"], rows


def _text(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "–"
    if cell["value"] is None or math.isnan(cell["value"]):
        return say.UNDEFINED.format(why=say.NO_SCORED_ROWS if not cell["n"] else say.NO_VALUE)
    return rounded(cell) + aside(between(cell))


def drawings(results: Report, *kinds: Callable[[Report, str], Figure]) -> list[Figure]:
    """Return the non-empty figures of (report, dataset) functions, merged over datasets."""
    drawn = [merge_figures({dataset: draw(results, dataset) for dataset in results.datasets}) for draw in kinds]
    return [figure for figure in drawn if figure is not None]


def breakdown(results: Report) -> list[Figure]:
    """Return the figures of slices, then the figure of variants."""
    by_title: dict[str, dict[str, Figure]] = {}
    for dataset in results.datasets:
        for figure in slices(results, dataset):
            by_title.setdefault(figure.title, {})[dataset] = figure
    return [of_slice for by in by_title.values() if (of_slice := merge_figures(by)) is not None] + drawings(results, variants)


ASSETS = ["templates/drawings.html"]
CALIBRATION = Section(
    "calibration", "Calibration", lambda results: drawings(results, reliability, risk_coverage), "drawings.html", say.CALIBRATION_HEADING
)
UNCERTAINTY = Section(
    "uncertainty", "Uncertainty", lambda results: drawings(results, set_sizes, right_and_wrong), "drawings.html", say.UNCERTAINTY_HEADING
)
BREAKDOWN = Section("breakdown", "Slices", breakdown, "drawings.html", say.SLICES_HEADING)
