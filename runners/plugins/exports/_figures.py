"""Figures of the scores for a paper, one for each chart and dataset."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from qualm.runners.plugins.exports import ExportContext, ExportError, slug
from qualm.runners.plugins.exports._grids import grid
from qualm.runners.plugins.exports._results import PERHAPS, Marks, ResultTable, Value, caption, label_words, result_tables
from qualm.runners.results.tables import read_points
from qualm.runners.runtime import plot
from qualm.runners.runtime.colours import ACCENT, INK, MUTED, OVER, RIGHT, SERIES, UNDER
from qualm.runners.runtime.marks import draw_counts, draw_reliability, draw_risk_coverage, draw_set_sizes, excludes_zero
from qualm.runners.runtime.plot import TITLE, Plot
from qualm.runners.runtime.printed import BAR, CHARACTER, GAP, Axes, Drawing, PlotPanel, label, panel_width, plot_width, shorten_texts
from qualm.runners.scoring.measuring.labels import main_setting

UNIT = [(0.0, "0"), (0.5, "0.5"), (1.0, "1")]
ROW = 17.0
"""Height of a row of dots."""
NARROW = 420.0
"""Width of a figure below which it has two panels per row."""
MAX_METRICS = 12
DOTS = Marks("Filled", "Dot in a ring", "Lines")
STEPS = 4
"""Approximate number of ticks of an axis from 0."""


@dataclass(frozen=True)
class PrintFigure:
    """A figure with its file name and caption."""

    name: str
    caption: str
    svg: str


class NothingToDrawError(Exception):
    """The results do not hold what a chart needs; the message says why."""


def figures(context: ExportContext, only: str, width: str, metrics: str) -> list[PrintFigure]:
    """Return figures of the charts in `only` (all if empty); ExportError if none has data.

    Raises:
        ExportError: no such chart, width or metric, or nothing to draw at all.
    """
    names = [name.strip().replace("-", "_") for name in only.split(",") if name.strip()] or list(CHARTS)
    if unknown := [name for name in names if name not in CHARTS]:
        raise ExportError(f"no chart '{unknown[0]}'; there are: {', '.join(CHARTS)}")
    try:
        wide = plot_width(width)
    except ValueError as error:
        raise ExportError(str(error)) from None
    tables = result_tables(context, "clean", "all")
    chosen = [name.strip() for name in metrics.split(",") if name.strip()]
    if unknown := [m for m in chosen if not any(m in dict(t.columns) or t.metric == m for t in tables)]:
        raise ExportError(f"no score of metric '{unknown[0]}' on clean inputs and all questions; `qualm show` lists the scores")
    drawn: list[PrintFigure] = []
    reasons: dict[str, str] = {}
    for dataset in dict.fromkeys(table.dataset for table in tables):
        of = Source(context, dataset, [t for t in tables if t.dataset == dataset], wide, chosen)
        for name in names:
            try:
                drawn += CHARTS[name](of)
            except NothingToDrawError as why:
                reasons[f"{name} of {dataset}"] = str(why)
    if not drawn:
        raise ExportError("nothing to draw: " + "; ".join(f"{what}: {reason}" for what, reason in reasons.items()))
    for what, reason in reasons.items() if only else ():
        context.lose(f"{what}: {reason}")
    return drawn


@dataclass
class Source:
    """The results of one dataset that charts are drawn from."""

    context: ExportContext
    dataset: str
    tables: list[ResultTable]
    width: float
    metrics: list[str]

    def points(self, name: str, *number_columns: str) -> pl.DataFrame:
        """Return this dataset's rows of plot `name`; NothingToDrawError if there is no such plot.

        Only selected models and the main conformal setting are kept.
        """
        if name not in self.context.points:
            raise NothingToDrawError("the spec measures nothing of the kind")
        frame = read_points(self.context.points[name], ("model", "dataset", *number_columns)).filter(pl.col("dataset") == self.dataset)
        if self.context.models_asked:
            frame = frame.filter(pl.col("model").is_in(list(self.context.models_asked)))
        if "setting" in frame.columns:
            setting = main_setting([s["label"] for s in self.context.scoring.get("conformal", ())])
            frame = frame.filter(pl.col("setting").is_null() | (pl.col("setting") == setting))
        return frame

    def models(self, frame: pl.DataFrame) -> list[str]:
        """Return the models that occur in `frame`, in the order of the score tables."""
        there = set(frame["model"])
        return list(dict.fromkeys(m for t in self.tables for m in (t.rows if t.stub == "model" else dict(t.columns)) if m in there))

    @property
    def columns(self) -> int:
        """Return the number of panels per row."""
        return 2 if self.width < NARROW else 4

    def drawing(self) -> Drawing:
        return Drawing(self.width)

    def figure(self, chart: str, drawing: Drawing, caption: str, *parts: str) -> PrintFigure:
        name = slug("-".join((chart, self.dataset, *parts)))
        return PrintFigure(name, caption, drawing.svg(f"{chart.replace('_', ' ')}, {self.dataset}", caption))


def leaderboard(of: Source) -> Iterator[PrintFigure]:
    """Yield one figure: models against metrics, with intervals; NothingToDrawError if none."""
    table = next((t for t in of.tables if t.stub == "model"), None)
    if table is None:
        raise NothingToDrawError("no metric reads answers alone")
    metrics = [(m, better) for m, better in table.columns if m in of.metrics] if of.metrics else table.columns[:MAX_METRICS]
    if not metrics:
        raise NothingToDrawError("none of these metrics reads answers alone")
    models = _sorted(table.rows, *metrics[0])
    panels = [(f"{label_words(metric)}{_arrow(better)}", [table.rows[m].get(metric) for m in models]) for metric, better in metrics]
    more = f" The first {len(metrics)} of {len(table.columns)} metrics." if not of.metrics and len(metrics) < len(table.columns) else ""
    yield of.figure("leaderboard", _dots(of, models, panels), caption(table, of.context.scoring, marks=DOTS) + more)


def estimators(of: Source) -> Iterator[PrintFigure]:
    """Yield a figure per metric of estimators, a panel per model; NothingToDrawError if none."""
    tables = [t for t in of.tables if t.stub == "estimator" and (not of.metrics or t.metric in of.metrics)]
    if not tables:
        raise NothingToDrawError("no metric reads an estimator")
    for table in tables:
        first, better = table.columns[0]
        names = _sorted(table.rows, first, better)
        panels = [(model + _arrow(better), [table.rows[name].get(model) for name in names]) for model, better in table.columns]
        chance = 0.5 if table.metric.partition("@")[0] == "auroc" else None
        chance_note = " Dashed: chance." if chance else ""
        text = caption(table, of.context.scoring, marks=DOTS) + chance_note
        yield of.figure("estimators", _dots(of, [table.heading(name) for name in names], panels, chance), text, table.metric)


def _arrow(better: bool | None) -> str:
    return {True: " ↑", False: " ↓", None: ""}[better]


def _sorted(rows: Mapping[str, Mapping[str, Value]], column: str, better: bool | None) -> list[str]:
    if better is None:
        return list(rows)
    sign = -1 if better else 1
    return sorted(rows, key=lambda name: sign * v.value if (v := rows[name].get(column)) is not None and v.value is not None else math.inf)


def _dots(of: Source, names: Sequence[str], panels: Sequence[tuple[str, list[Value | None]]], reference: float | None = None) -> Drawing:
    drawing = of.drawing()
    columns = min(of.columns, len(panels))
    left = min(of.width * (0.38 if columns > 1 else 0.52), max(len(n) for n in names) * CHARACTER + 10)
    wide, tall = panel_width(of.width, columns, left), ROW * len(names)
    middles = [(ROW * (i + 0.5), name) for i, name in enumerate(shorten_texts(names, left - 8))]
    titles = shorten_texts([title for title, _ in panels], panel_width(wide + 9, 1, 0.0), TITLE)
    ranked = any(v is not None and v.rank for _, values in panels for v in values)
    for begin in range(0, len(panels), columns):
        row = list[tuple[str, Plot, list[float]]]()
        for title, (_, values) in list(zip(titles, panels, strict=True))[begin : begin + columns]:
            ends = [e for v in values if v for e in (v.value, v.low, v.high) if e is not None] + ([] if reference is None else [reference])
            low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
            low, high = plot.nice_interval(low, high, 4) if high > low else (low - 0.05, high + 0.05)
            panel = Plot(wide, tall, plot.linear_scale((low, high), (6, wide - 6)), lambda y: y)
            if reference is not None:
                panel.line([(reference, 0), (reference, tall)], MUTED, 0.9, "3,3")
            for (at, _), value in zip(middles, values, strict=True):
                _dot(panel, at, value, ranked)
            row.append((title, panel, plot.ticks(low, high, 3) if ends else []))
        _row(drawing, row, left, middles)
    return drawing


def _row(drawing: Drawing, row: Sequence[tuple[str, Plot, list[float]]], left: float, middles: Sequence[tuple[float, str]]) -> None:
    height = drawing.height
    for index, (title, panel, marks) in enumerate(row):
        drawing.height = height
        x = list(zip(marks, plot.format_numbers(marks), strict=True))
        beside = Drawing(panel.width + 9)
        beside.height = height
        labels = middles if index == 0 else [(at, "") for at, _ in middles]
        for at, text in labels:
            if text:
                drawing.shapes.append(label(left - 6, height + 17 + at + 3.4, text, "end"))
        beside.panels([PlotPanel(title, [panel])], Axes(x, [[(at, "") for at, _ in middles]]), 1, 0.0)
        drawing.shapes.append(plot.group(left + index * (panel.width + GAP), 0, beside.shapes))
        bottom = beside.height
    drawing.height = bottom + 8


def _dot(panel: Plot, at: float, value: Value | None, ranked: bool) -> None:
    if value is None or value.value is None:
        text = "–" if value is None else "undefined"
        panel.shapes.append(label(panel.width / 2, at + 3.4, text, "middle", style="italic"))
        return
    if value.low is not None and value.high is not None:
        panel.line([(value.low, at), (value.high, at)], INK, 1.1)
    x, filled = panel.x(value.value), not ranked or bool(value.rank)
    inner = f'<circle cx="{x:.1f}" cy="{at:.1f}" r="1.4" fill="{ACCENT}" />' if ranked and value.rank == PERHAPS else ""
    fill = ACCENT if filled and not inner else "var(--paper)"
    panel.shapes.append(f'<circle cx="{x:.1f}" cy="{at:.1f}" r="3.2" fill="{fill}" stroke="{ACCENT}" stroke-width="1.3" />{inner}')


def reliability(of: Source) -> Iterator[PrintFigure]:
    """Yield one figure of accuracy by confidence; NothingToDrawError if no answer has both."""
    frame = of.points("reliability", "bin_low", "bin_high", "confidence", "accuracy", "n")
    frame = frame.filter((pl.col("n") > 0) & pl.col("accuracy").is_finite())
    models = of.models(frame)
    if not models:
        raise NothingToDrawError("no answer has both a confidence and a verdict")
    drawing, left = of.drawing(), 46.0
    columns = min(of.columns, len(models))
    wide = panel_width(of.width, columns, left)
    tall, most = min(wide, 150.0), float(frame["n"].max())  # type: ignore[arg-type]
    panels = []
    for model in models:
        rows = frame.filter(pl.col("model") == model).to_dicts()
        across = plot.linear_scale((0, 1), (0, wide))
        top, below = (
            Plot(wide, tall, across, plot.linear_scale((0, 1), (tall, 0))),
            Plot(wide, 26, across, plot.linear_scale((0, most), (26, 0))),
        )
        draw_reliability(top, rows, BAR, solid=True)
        draw_counts(below, rows)
        panels.append(PlotPanel(model, [top, below]))
    expected = "expected_low" in frame.columns and frame["expected_low"].is_not_null().any()
    drawing.legend([(f"box {BAR}", "accuracy"), (f"box {OVER}", "over-confident"), (f"box {UNDER}", "under-confident")])
    many = plot.ticks(0, most, 2)
    n = list(zip(many, plot.format_thousands(many), strict=True))
    drawing.panels(panels, Axes(UNIT, [UNIT, n], "confidence", ("accuracy", "n")), columns, left)
    lines = " Upright lines: where 95% of samples would put a bin's accuracy if confidence were each answer's chance to be right."
    what = f"{of.dataset}: accuracy of the answers in each bin of confidence. Dashed: perfect calibration."
    yield of.figure("reliability", drawing, what + lines * expected + " Below: answers in each bin.")


def _from_zero(max_value: float) -> tuple[plot.Interval, list[float]]:
    """Return ((0, end), ticks) of an axis from 0 to a round number of at least `max_value`."""
    ends = plot.nice_interval(0, max(1e-3, max_value), STEPS)
    return ends, plot.ticks(*ends, STEPS)


def risk_coverage(of: Source) -> Iterator[PrintFigure]:
    """Yield one figure of error by coverage, a panel per model; else NothingToDrawError."""
    frame = of.points("risk_coverage", "coverage", "risk").filter(pl.col("risk").is_finite()).sort("coverage", maintain_order=True)
    models = of.models(frame)
    if not models:
        raise NothingToDrawError("no answer has both a confidence and a verdict")
    drawing, left = of.drawing(), 46.0
    columns = min(of.columns, len(models))
    wide = panel_width(of.width, columns, left)
    tall = min(wide, 130.0)
    ends, values = _from_zero(float(frame["risk"].max()))  # type: ignore[arg-type]
    panels = []
    for model in models:
        curve = [(row["coverage"], row["risk"]) for row in frame.filter(pl.col("model") == model).iter_rows(named=True)]
        total = curve[-1][1] if curve[-1][0] > 0.999 else None
        panel = Plot(wide, tall, plot.linear_scale((0, 1), (0, wide)), plot.linear_scale(ends, (tall, 0)))
        draw_risk_coverage(panel, curve, [] if total is None else _least_risk(total), total)
        panels.append(PlotPanel(model, [panel]))
    drawing.legend([(f"line {ACCENT}", "by confidence"), (f"dashed {RIGHT}", "best possible order"), (f"dotted {MUTED}", "random order")])
    y = list(zip(values, plot.format_numbers(values), strict=True))
    drawing.panels(panels, Axes(UNIT, [y], "share answered", ("error among them",)), columns, left)
    what = f"{of.dataset}: how often a model errs when it answers only the share of questions that it is surest of."
    yield of.figure("risk_coverage", drawing, f"{what} No order could lie below the dashed line at this accuracy.")


def _least_risk(total: float) -> list[tuple[float, float]]:
    """Return (coverage, risk) points of the best order at error rate `total`: errors last."""
    right = 1 - total
    return [(0.0, 0.0), *((c, max(0.0, (c - right) / c)) for c in (right + total * i / 40 for i in range(41)) if c > 0)]


def set_sizes(of: Source) -> Iterator[PrintFigure]:
    """Yield one figure of conformal set sizes, a panel per model; NothingToDrawError if none."""
    frame = of.points("set_sizes", "size", "count")
    models = of.models(frame)
    if not models:
        raise NothingToDrawError("no prediction sets: the dataset is open-ended or the spec has no conformal setting")
    scores = frame["score"].unique(maintain_order=True).to_list()[: len(SERIES)]
    share = pl.col("count") / pl.col("count").sum().over("model", "score")
    frame = frame.filter(pl.col("score").is_in(scores)).with_columns(share=share)
    drawing, left = of.drawing(), 46.0
    columns = min(of.columns, len(models))
    wide, tall = panel_width(of.width, columns, left), 90.0
    sizes = range(int(frame["size"].min()), int(frame["size"].max()) + 1)  # type: ignore[arg-type]
    ends, values = _from_zero(float(frame["share"].fill_nan(None).max() or 0))  # type: ignore[arg-type]
    panels = []
    for model in models:
        panel = Plot(wide, tall, plot.linear_scale((sizes[0] - 0.5, sizes[-1] + 0.5), (0, wide)), plot.linear_scale(ends, (tall, 0)))
        draw_set_sizes(panel, frame.filter((pl.col("model") == model) & pl.col("share").is_finite()).to_dicts(), scores)
        panels.append(PlotPanel(model, [panel]))
    drawing.legend([(f"box {SERIES[i]}", score.upper()) for i, score in enumerate(scores)])
    y = list(zip(values, plot.format_percent(values), strict=True))
    drawing.panels(panels, Axes([(s, str(s)) for s in sizes], [y], "options in the set", ("share of questions",)), columns, left)
    yield of.figure("set_sizes", drawing, f"{of.dataset}: sizes of the prediction sets, share of test questions.")


def _p_behind_stars(chart: str, row: Mapping[str, Any]) -> float | None:
    """Return a cell's adjusted p-value; None if collapsed, or if an HCC's interval has 0."""
    if row["collapsed"] or (chart == "hcc" and not excludes_zero(row)):
        return None
    p: float | None = row["p_adjusted"]
    return p


def _grids(chart: str, title: str) -> Callable[[Source], Iterator[PrintFigure]]:
    def drawn(of: Source) -> Iterator[PrintFigure]:
        frame = of.points(chart, "value", "p_adjusted", "low", "high")
        models = of.models(frame)
        if not models:
            raise NothingToDrawError("no estimator was read on perturbed inputs")
        most = max([0.2, *(abs(v) for v in frame["value"].drop_nulls())])
        modality: dict[str, Any] = {v["variant"]: v["modality"] for v in of.context.scoring.get("variants") or ()}
        for model in models:
            rows = [{**row, "p_adjusted": _p_behind_stars(chart, row)} for row in frame.filter(pl.col("model") == model).to_dicts()]
            caption = f"{of.dataset}, {model}: {title} of each estimator under each perturbation."
            held = " and an interval without 0" if chart == "hcc" else ""
            stars = f" * p < 0.05, ** p < 0.01, *** p < 0.001, corrected{held}. Hatched: undefined."
            stars += " No colour or star: answers ignore the input." if any(row["collapsed"] for row in rows) else ""
            yield of.figure(chart, grid(of.width, rows, modality, most), caption + stars, model)

    return drawn


CHARTS: dict[str, Callable[[Source], Iterator[PrintFigure]]] = {
    "leaderboard": leaderboard,
    "estimators": estimators,
    "reliability": reliability,
    "risk_coverage": risk_coverage,
    "set_sizes": set_sizes,
    "urr": _grids("urr", "uncertainty reflection rate"),
    "hcc": _grids("hcc", "hallucination consistency coefficient"),
}
