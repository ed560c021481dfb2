"""Results in the terminal: `qualm show` prints scores with their intervals, `qualm compare` differences with theirs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from compiler.compare import compare_results as compare_results
from compiler.comparisons import matching, read_comparisons, show_tests
from compiler.project import Project
from compiler.scores import Row, read_scores, score_stage, select
from compiler.tables import in_parts, metrics_down
from registry.printing import print_json

CELL = 22
"""Characters of a value with its interval."""


def show_results(
    project: Project,
    spec: str | None,
    models: Sequence[str] | None,
    datasets: Sequence[str] | None,
    metrics: Sequence[str] | None,
    variants: Sequence[str] | None,
    slices: Sequence[str] | None,
    as_json: bool,
) -> None:
    """`qualm show`: a spec's scores; without filters the clean variant, all questions, and one conformal setting."""
    stage = score_stage(project, spec)
    rows = read_scores(project.root / stage.outputs["scores"])
    chosen = select(rows, models, datasets, metrics, variants, slices)
    if as_json:
        print_json(chosen)
        return
    console = Console(highlight=False)
    show_scores(chosen, console)
    if "comparisons" in stage.outputs:
        tests = read_comparisons(project.root / stage.outputs["comparisons"])
        compared = stage.params["compare"]
        show_tests(matching(tests, chosen), compared["correction"], compared["family"], console)


def show_scores(rows: Sequence[Row], console: Console) -> None:
    """Print scores, a table per dataset, variant and slice: metrics down, as many models across as fit."""
    keys = list(dict.fromkeys((r["dataset"], r["variant"], r["slice"]) for r in rows))
    if not keys:
        console.print("nothing fits these filters")
    for key in keys:
        here = [r for r in rows if (r["dataset"], r["variant"], r["slice"]) == key]
        models = list(dict.fromkeys(r["model"] for r in here))
        for shown in in_parts(models, CELL, console):
            console.print(_score_table(here, key, shown))


def _score_table(rows: Sequence[Row], key: tuple[str, str, str], models: Sequence[str]) -> Table:
    dataset, variant, part = key
    title = Text(dataset, style="bold") + Text("".join(f" · {x}" for x, plain in ((variant, "clean"), (part, "all")) if x != plain))
    return metrics_down(title, {(r["metric"], r["model"]): r for r in rows}, models, _value, unscored=True)


def _value(row: Row | None) -> Text:
    if row is None:
        return Text("–", style="dim")
    if row["value"] is None or math.isnan(row["value"]):
        return Text("undefined", style="dim italic")
    text = Text(f"{row['value']:.3f}")
    if row["low"] is not None and row["high"] is not None:
        dash = " to " if row["low"] < 0 else "–"  # beside a minus a dash is misread
        text.append(f" {row['low']:.3f}{dash}{row['high']:.3f}", style="dim")
    return text
