"""Show the measurements of a search: rows, CSV, and a chart."""

import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qualm.runners.review.effects import Goal
from qualm.runners.review.knobs import format_strength
from qualm.runners.review.search import Reading, SearchOutcome, monotone
from qualm.runners.runtime import plot
from qualm.runners.runtime.colours import ACCENT, INK, MUTED

STYLE = Path(__file__).parents[1] / "reporting" / "templates" / "style.css"
COLUMNS = ("strength", "value", "low", "high", "n", "left_out", "chosen")


def curve_rows(outcome: SearchOutcome, goal: Goal) -> list[dict[str, Any]]:
    """Return a table row per measured strength, weak to strong, in the goal's units."""
    table = []
    for r in outcome.readings:
        low, high = sorted((goal.display(r.low), goal.display(r.high)))
        numbers = {"strength": r.strength, "value": goal.display(r.value), "low": low, "high": high}
        table.append({**numbers, "n": r.n, "left_out": r.left_out, "chosen": r is outcome.chosen})
    return table


def csv_text(outcome: SearchOutcome, goal: Goal) -> str:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in curve_rows(outcome, goal):
        writer.writerow(
            {
                **row,
                "strength": format_strength(row["strength"]),
                **{k: f"{row[k]:.6g}" for k in COLUMNS[1:4]},
                "chosen": int(row["chosen"]),
            }
        )
    return out.getvalue()


def format_reading(reading: Reading, goal: Goal) -> str:
    """Return a measurement as text: `0.2 [0.15, 0.26] of 200`."""
    low, high = sorted((goal.display(reading.low), goal.display(reading.high)))
    return f"{goal.display(reading.value):.3g} [{low:.3g}, {high:.3g}] of {reading.n}"


def svg_text(outcome: SearchOutcome, goal: Goal, x_title: str) -> str:
    """Return a chart as SVG: measurements, monotone curve, target and chosen strength."""
    return standalone(_chart(_finite(curve_rows(outcome, goal)), _smooth(outcome, goal), outcome, goal, x_title))


def _chart(points: Sequence[dict[str, Any]], smooth: Sequence[dict[str, Any]], outcome: SearchOutcome, goal: Goal, x_title: str) -> str:
    large = max(abs(outcome.range.weak), abs(outcome.range.strong))

    def scaled(x: float) -> float:
        return math.copysign(math.log1p(abs(x) * 256 / large), x) if outcome.range.scale == "log" else x

    target = goal.display(goal.target)
    values = [target, *(p[name] for p in points for name in ("value", "low", "high")), *(p["value"] for p in smooth)]
    values += [0.0] if goal.name != "psnr" else []
    low, high = plot.nice_interval(min(values), max(values)) if max(values) > min(values) else (values[0] - 0.05, values[0] + 0.05)
    strengths = sorted({p["strength"] for p in points})
    along = plot.linear_scale((scaled(strengths[0]), scaled(strengths[-1])) if strengths else (0.0, 1.0), (6, 414))
    panel = plot.Plot(420, 260, lambda x: along(scaled(x)), plot.linear_scale((low, high), (260, 0)))
    panel.horizontal(target, MUTED, 1, "3,3")
    if smooth:
        panel.line([(p["strength"], p["value"]) for p in smooth], MUTED, 1.2)
    for p in points:
        panel.line([(p["strength"], p["low"]), (p["strength"], p["high"])], INK, 1)
        panel.dots([(p["strength"], p["value"])], INK, 2.9)
    for p in (p for p in points if p["chosen"]):
        panel.line([(p["strength"], low), (p["strength"], high)], ACCENT, 1.2)
        panel.dots([(p["strength"], p["value"])], ACCENT, 4.7)
    panel.x_axis([(x, f"{x:.4g}") for x in strengths], x_title)
    marks = plot.ticks(low, high, 5)
    panel.y_axis(list(zip(marks, plot.format_numbers(marks), strict=True)), goal.title)
    return plot.stack_plots([(0, panel)], plot.left_margin(plot.format_numbers(marks)), 40)


def _finite(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return points with finite values; infinite interval ends become the value."""
    ends = ("low", "high")
    return [{**p, **{e: p[e] if math.isfinite(p[e]) else p["value"] for e in ends}} for p in points if math.isfinite(p["value"])]


def _smooth(outcome: SearchOutcome, goal: Goal) -> list[dict[str, float]]:
    fitted = monotone([r.value for r in outcome.readings], [r.n for r in outcome.readings])
    points = [{"strength": r.strength, "value": goal.display(v)} for r, v in zip(outcome.readings, fitted, strict=True)]
    return [p for p in points if math.isfinite(p["value"])]


def standalone(svg: str) -> str:
    """Return an inline SVG chart as an SVG file of its own, with the report's colours."""
    css = STYLE.read_text(encoding="utf-8")
    used = sorted(set(re.findall(r"var\((--[a-z0-9]+)\)", svg)) | {"--paper"})

    def colours(block: str) -> str:
        return "".join(f"{name}:{match[1].strip()};" for name in used if (match := re.search(rf"{name}:\s*([^;]+);", block)))

    light, dark = colours(css), colours(css[css.index("prefers-color-scheme: dark") :])
    style = f"svg{{{light}background:var(--paper);font-family:sans-serif}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}"
    head, body = svg.split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{style}</style>{body}\n'
