"""The figures' drawings. Every function takes rows and gives SVG text; none decides what to show."""

from collections.abc import Callable, Sequence
from statistics import linear_regression
from typing import Any

from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.text import rounded
from qualm.runners.runtime import plot
from qualm.runners.runtime.colours import ACCENT, INK, MUTED, RIGHT, SERIES, WRONG
from qualm.runners.runtime.marks import draw_counts, draw_reliability, draw_risk_coverage, draw_set_sizes
from qualm.runners.runtime.precision import round_result
from qualm.runners.runtime.short_names import shorten_names

Rows = Sequence[dict[str, Any]]
_UNIT = [0, 0.2, 0.4, 0.6, 0.8, 1]


def _rounded(rows: Rows) -> list[dict[str, Any]]:
    """Return copies of the rows with floats rounded, so that all machines draw alike."""
    return [{name: round_result(cell) if isinstance(cell, float) else cell for name, cell in row.items()} for row in rows]


def reliability(rows: Rows, max_count: float = 0) -> str:
    """Return an SVG of accuracy by confidence; panels share their axes and `max_count`."""
    top = _unit_plot(150, (0, 1))
    marks = list(zip(_UNIT, plot.format_numbers(_UNIT), strict=True))
    draw_reliability(top, _rounded(rows))
    top.y_axis(marks, "accuracy")
    max_count = max([max_count, *(row["n"] for row in rows)])
    share = _unit_plot(30, (0, max_count))
    draw_counts(share, rows)
    share.x_axis(marks, "confidence")
    many = plot.ticks(0, max_count, 2)
    share.y_axis(list(zip(many, plot.format_thousands(many), strict=True)), "n", grid=False)
    margin = max(plot.left_margin(labels) for labels in (plot.format_numbers(_UNIT), plot.format_thousands(many)))
    return plot.stack_plots([(0, top), (160, share)], margin, _BELOW)


def risk_coverage(rows: Rows, oracle: Rows, overall_error: float | None, max_risk: float = 0) -> str:
    """Return an SVG of error against share answered; panels share their axes and `max_risk`."""
    drawn = _rounded(rows)
    ends = plot.nice_interval(0, max([max_risk, overall_error or 0.0, 1e-3, *(row["risk"] for row in (*drawn, *oracle))]), 4)
    curves = _unit_plot(150, ends)
    best = [(row["coverage"], row["risk"]) for row in _rounded(oracle)]
    draw_risk_coverage(curves, [(row["coverage"], row["risk"]) for row in drawn], best, overall_error)
    curves.x_axis(list(zip(_UNIT, plot.format_numbers(_UNIT), strict=True)), say.SHARE_ANSWERED)
    values = plot.ticks(*ends, 4)
    curves.y_axis(list(zip(values, plot.format_numbers(values), strict=True)), say.ERROR_AMONG_THEM)
    return plot.stack_plots([(0, curves)], plot.left_margin(plot.format_numbers(values)), _BELOW)


def set_sizes(rows: Rows, scores: Sequence[str], sizes: Sequence[int], max_share: float = 0) -> str:
    """Return an SVG of shares by set size and score; panels share their axes and `max_share`."""
    ends = plot.nice_interval(0, max([max_share, 1e-3, *(row["share"] for row in rows)]))
    first, last = min(sizes), max(sizes)
    bars = plot.Plot(_WIDTH, 130, plot.linear_scale((first - 0.5, last + 0.5), (0, _WIDTH)), plot.linear_scale(ends, (130, 0)))
    draw_set_sizes(bars, _rounded(rows), scores)
    bars.x_axis([(size, str(size)) for size in sizes], say.OPTIONS_IN_SET)
    values = plot.ticks(*ends, 4)
    bars.y_axis(list(zip(values, plot.format_percent(values), strict=True)), say.SHARE_OF_QUESTIONS)
    return plot.stack_plots([(0, bars)], plot.left_margin(plot.format_percent(values)), _BELOW)


def right_and_wrong(rows: Rows, title: str) -> str:
    """Return an SVG of two histograms back to back: right answers up, wrong ones down."""
    drawn = _rounded(rows)
    ends = plot.nice_interval(min(0.0, *(row["share"] for row in drawn)), max(1e-3, *(row["share"] for row in drawn)))
    domain = (min(row["low"] for row in drawn), max(row["high"] for row in drawn))
    bars = plot.Plot(_WIDTH, 130, plot.linear_scale(domain, (0, _WIDTH)), plot.linear_scale(ends, (130, 0)))
    for row in drawn:
        bars.rect((row["low"], row["high"]), (0, row["share"]), RIGHT if row["verdict"] == "right" else WRONG, 0.85)
    bars.line([(domain[0], 0), (domain[1], 0)], MUTED, 0.8)
    places, values = plot.ticks(*domain, 5), plot.ticks(*ends, 4)
    labels = [text.removeprefix("−") for text in plot.format_percent(values)]
    bars.x_axis(list(zip(places, plot.format_numbers(places), strict=True)), title)
    bars.y_axis(list(zip(values, labels, strict=True)), "share")
    return plot.stack_plots([(0, bars)], plot.left_margin(labels), _BELOW)


_WIDTH, _BELOW = 190, 40


def _unit_plot(height: float, y_range: tuple[float, float]) -> plot.Plot:
    """Return a plot whose x axis goes from 0 to 1."""
    return plot.Plot(_WIDTH, height, plot.linear_scale((0, 1), (0, _WIDTH)), plot.linear_scale(y_range, (height, 0)))


def quartiles(rows: Rows, row_order: Sequence[str]) -> str:
    """Return an SVG of uncertainty quantiles (10 to 90%) of right and wrong answers, by model."""
    drawn = _rounded(rows)
    panel, place = _row_plot(row_order, _shorten_labels(row_order), 26, [row[q] for row in drawn for q in ("q10", "q90")])
    for row in drawn:
        colour, at = (RIGHT, place(row["model"], -4.5)) if row["verdict"] == "right" else (WRONG, place(row["model"], 4.5))
        panel.line([(row["q10"], at), (row["q90"], at)], colour, 1)
        panel.line([(row["q25"], at), (row["q75"], at)], colour, 3.5)
        panel.dots([(row["q50"], at)], colour, 2.9, outlined=True)
    return plot.stack_plots([(0, panel)], plot.left_margin(_shorten_labels(row_order)), 24)


def dots(
    rows: Rows, row_order: Sequence[str], models: Sequence[str], reference: float | None = None, beside: Sequence[str] | None = None
) -> str:
    """Return an SVG of a dot and interval per row and model; ticks and means if many models."""
    drawn = _rounded(rows)
    names = [m for m in beside or models if m in {row["model"] for row in drawn}]
    many = len(models) > len(SERIES)
    values = [row[key] for row in drawn for key in (("value",) if many else ("value", "low", "high"))]
    row_order = list(dict.fromkeys([*row_order, *(row["row"] for row in drawn)]))
    height = 19 if many or len(names) == 1 else 9 * len(names) + 8
    panel, place = _row_plot(row_order, _shorten_labels(row_order), height, [*values, *([] if reference is None else [reference])])
    if reference is not None:
        panel.line([(reference, 0), (reference, panel.height)], MUTED, 1, "3,3")
    for row in drawn:
        if many:
            at = place(row["row"], 0)
            panel.line([(row["value"], at - 5.5), (row["value"], at + 5.5)], ACCENT, 1.5, opacity=0.45)
        else:
            colour, at = SERIES[list(models).index(row["model"])], place(row["row"], 9 * (names.index(row["model"]) - (len(names) - 1) / 2))
            panel.line([(row["low"], at), (row["high"], at)], colour, 1.4)
            panel.dots([(row["value"], at)], colour, 3)
    for name in dict.fromkeys(row["row"] for row in drawn) if many else ():
        of = [row["value"] for row in drawn if row["row"] == name]
        panel.diamond((sum(of) / len(of), place(name, 0)), INK, 4.6)
    return plot.stack_plots([(0, panel)], plot.left_margin(_shorten_labels(row_order)), 24)


def ranked_dots(rows: Rows, reference: float | None = None) -> str:
    """Return an SVG of one row per value: dot, interval, number; dashed at `reference`.

    Each of `rows` has `row` (its name), `value`, `low`, `high`, `colour`, `blind`.
    """
    drawn = _rounded(rows)
    ends = [row[key] for row in drawn for key in ("value", "low", "high") if row[key] is not None]
    names = _shorten_labels([row["row"] for row in drawn], 34)
    panel, place = _row_plot(names, names, 17, [*ends, *([] if reference is None else [reference])], 312)
    if reference is not None:
        panel.line([(reference, 0), (reference, panel.height)], MUTED, 1, "3,3")
    for name, row in zip(names, drawn, strict=True):
        at = place(name, 0)
        if row["low"] is not None and row["high"] is not None:
            panel.line([(row["low"], at), (row["high"], at)], row["colour"], 1.4)
        if row["blind"]:
            panel.ring((row["value"], at), row["colour"], 3.2)
        else:
            panel.dots([(row["value"], at)], row["colour"], 3.4)
        panel.text(panel.width + 8, at + 3.5, rounded(row), "start", INK)
    return plot.stack_plots([(0, panel)], plot.left_margin(names), 24, right=48)


def _shorten_labels(labels: Sequence[str], max_length: int = 26) -> list[str]:
    """Return the labels, in order; longer than `max_length`, they are cut and kept distinct."""
    return shorten_names(labels, max_length, lambda label: label if len(label) <= max_length else f"{label[: max_length - 1]}…")


def _row_plot(
    row_order: Sequence[str], labels: Sequence[str], row_height: float, x_values: Sequence[float], width: float = 278
) -> tuple[plot.Plot, Callable[[str, float], float]]:
    """Return (plot with a labelled row per name, function (name, shift) -> y in pixels)."""
    ends = _axis_range(x_values)
    room = max(120.0, width - plot.left_margin(labels))
    panel = plot.Plot(room, row_height * len(row_order), plot.linear_scale(ends, (5, room - 5)), lambda y: y)
    middle = {name: row_height * (i + 0.5) for i, name in enumerate(row_order)}
    panel.y_axis(list(zip(middle.values(), labels, strict=True)), ticks=False)
    marks = plot.ticks(*ends, 5)
    panel.x_axis(list(zip(marks, plot.format_numbers(marks), strict=True)))
    return panel, lambda name, shift: middle[name] + shift


def lines(rows: Rows, models: Sequence[str], x_title: str, y_title: str, *, log: bool = False, goal: float | None = None) -> str:
    """Return an SVG of a line per model, and their mean if many; dashed at y = `goal`.

    Bands show the intervals of up to three models, on a linear x axis without a goal.
    """
    drawn = _rounded(rows)
    names = list(dict.fromkeys(row["model"] for row in drawn))
    many = len(models) > len(SERIES)
    bands = not many and not log and goal is None and len(names) <= 3  # more of them hide each other
    places = sorted({row["x"] for row in drawn})
    panel = plot.Plot(210, 160, plot.axis_scale(places, (12, 198), log=log), plot.linear_scale(_y_range(drawn, goal, bands), (160, 0)))
    if goal is not None:
        panel.horizontal(goal, MUTED, 1, "3,3")
    of = {name: [row for row in drawn if row["model"] == name] for name in names}
    for name in names:
        if bands:
            panel.band([(row["x"], row["low"], row["high"]) for row in of[name]], SERIES[list(models).index(name)], 0.12)
    for name in names:
        colour, width, opacity = (ACCENT, 1, 0.3) if many else (SERIES[list(models).index(name)], 1.6, 1.0)
        points = [(row["x"], row["value"]) for row in of[name]]
        panel.line(points, colour, width, opacity=opacity)
        if not many:
            panel.dots(points, colour, 3)
    if many:
        means = [(x, sum(r["value"] for r in drawn if r["x"] == x) / sum(r["x"] == x for r in drawn)) for x in places]
        panel.line(means, INK, 2)
        panel.dots(means, INK, 2.8)
    panel.x_axis([(x, f"{x:.4g}") for x in places], x_title)
    values = plot.ticks(*_y_range(drawn, goal, bands), 5)
    panel.y_axis(list(zip(values, plot.format_numbers(values), strict=True)), y_title)
    return plot.stack_plots([(0, panel)], plot.left_margin(plot.format_numbers(values)), _BELOW)


def _y_range(rows: Rows, goal: float | None, bands: bool) -> tuple[float, float]:
    """Return the (low, high) ends of the y axis, with room around a goal."""
    values = [row[key] for row in rows for key in (("value", "low", "high") if bands else ("value",))]
    if goal is not None:
        return min([goal, *values]) - 0.02, max([goal, *values]) + 0.02
    return _axis_range(values)


def dumbbells(rows: Rows, row_order: Sequence[str]) -> str:
    """Return an SVG of changes as ring and dot: green if better, red if worse, else grey."""
    drawn = _rounded(rows)
    panel, place = _row_plot(row_order, _shorten_labels(row_order), 20, [row[end] for row in drawn for end in ("before", "after")])
    for row in drawn:
        at, colour = place(row["row"], 0), {"better": RIGHT, "worse": WRONG}.get(row["change"], MUTED)
        panel.line([(row["before"], at), (row["after"], at)], colour, 2, opacity=0.7)
        panel.ring((row["before"], at), colour, 3.4)
        panel.dots([(row["after"], at)], colour, 3.6)
    return plot.stack_plots([(0, panel)], plot.left_margin(_shorten_labels(row_order)), 24)


def rank_lines(rows: Rows, metrics: Sequence[str]) -> str:
    """Return an SVG of ranks by one metric after another, a line per model named at both ends."""
    names = list(dict.fromkeys(row["model"] for row in rows))
    column = {metric: 60 + 120 * i for i, metric in enumerate(metrics)}
    height = max(60, 17 * len(names))
    y = plot.linear_scale((1, max(len(names), 2)), (8, height - 8))
    panel = plot.Plot(120 * len(metrics), height, lambda x: x, y)
    for metric, at in column.items():
        panel.text(at, -14, metric, "middle", INK)
    for name in names:
        of = sorted((row for row in rows if row["model"] == name), key=lambda row: column[row["metric"]])
        points = [(column[row["metric"]], row["place"]) for row in of]
        colour = {"up": RIGHT, "down": WRONG}.get(of[0]["moved"], MUTED)
        panel.line(points, colour, 1.5, opacity=0.75)
        panel.dots(points, colour, 3.3)
        for end, shift, anchor, words in ((0, -9, "end", "before"), (-1, 9, "start", "after")):
            if of[end]["metric"] == metrics[end]:
                panel.text(points[end][0] + shift, y(points[end][1]) + 3.5, of[end][words], anchor, colour)
    longest = max((len(row[end]) for row in rows for end in ("before", "after")), default=0)
    room = max(0.0, 6.2 * longest - 40)
    return plot.stack_plots([(22, panel)], room, 4, right=room)


def scatter(rows: Rows, models: Sequence[str], x_title: str, y_title: str) -> str:
    """Return an SVG of a dot per model, with a least-squares line from three models on."""
    drawn = _rounded(rows)
    xs, ys = ([row[name] for row in drawn] for name in "xy")
    x_ends, y_ends = _axis_range(xs), _axis_range(ys)
    panel = plot.Plot(240, 180, plot.linear_scale(x_ends, (10, 230)), plot.linear_scale(y_ends, (170, 10)))
    if len(drawn) > 2 and max(xs) > min(xs):
        slope, rise = linear_regression(xs, ys)
        panel.line([(x, slope * x + rise) for x in (min(xs), max(xs))], MUTED, 1, "3,3")
    for row in drawn:
        if len(models) > len(SERIES):
            panel.dots([(row["x"], row["y"])], ACCENT, 3.6, outlined=True)
        else:
            panel.dots([(row["x"], row["y"])], SERIES[list(models).index(row["model"])], 4.2, outlined=True)
    x_values, y_values = plot.ticks(*x_ends, 5), plot.ticks(*y_ends, 5)
    panel.x_axis(list(zip(x_values, plot.format_numbers(x_values), strict=True)), x_title)
    panel.y_axis(list(zip(y_values, plot.format_numbers(y_values), strict=True)), y_title)
    return plot.stack_plots([(0, panel)], plot.left_margin(plot.format_numbers(y_values)), _BELOW)


def bars(rows: Rows, group_order: Sequence[str], models: Sequence[str]) -> str:
    """Return an SVG of groups of bars, one bar per model, each with its interval."""
    drawn = _rounded(rows)
    width = max(230.0, 62.0 * len(group_order))
    heights = [0.0, *(row[name] for row in drawn for name in ("value", "low", "high"))]
    ends = plot.nice_interval(min(heights), max(heights), 5)
    panel = plot.Plot(width, 150, lambda x: x, plot.linear_scale(ends, (150, 0)))
    step = width / len(group_order)
    wide = 0.8 * step / len(models)
    for row in drawn:
        place = list(models).index(row["model"])
        left = step * (list(group_order).index(row["group"]) + 0.1) + wide * place
        panel.rect((left, left + wide), (0, row["value"]), SERIES[place % len(SERIES)], 0.9, gap=False)
        panel.line([(left + wide / 2, row["low"]), (left + wide / 2, row["high"])], INK, 0.9, opacity=0.55)
    panel.x_axis([(step * (i + 0.5), text) for i, text in enumerate(_shorten_labels(group_order, max(4, int(step / 6.6))))])
    values = plot.ticks(*ends, 5)
    panel.y_axis(list(zip(values, plot.format_numbers(values), strict=True)))
    return plot.stack_plots([(0, panel)], plot.left_margin(plot.format_numbers(values)), 24)


def _axis_range(values: Sequence[float]) -> tuple[float, float]:
    """Return ends of an axis around values: round, or 0.05 to each side of a single value."""
    low, high = min(values), max(values)
    return plot.nice_interval(low, high) if high > low else (low - 0.05, high + 0.05)
