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
    fits = max(1, (console.width - 34) // CELL)
    for key in keys:
        here = [r for r in rows if (r["dataset"], r["variant"], r["slice"]) == key]
        models = list(dict.fromkeys(r["model"] for r in here))
        for start in range(0, len(models), fits):
            console.print(_score_table(here, key, models[start : start + fits]))


def _score_table(rows: Sequence[Row], key: tuple[str, str, str], models: Sequence[str]) -> Table:
    dataset, variant, part = key
    title = Text(dataset, style="bold") + Text("".join(f" · {x}" for x, plain in ((variant, "clean"), (part, "all")) if x != plain))
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("metric", overflow="fold")
    for model in models:
        table.add_column(Text(model), justify="right", overflow="fold")
    table.add_column("n", justify="right", style="dim")
    cells = {(r["metric"], r["model"]): r for r in rows}
    for metric in dict.fromkeys(r["metric"] for r in rows):
        found = [cells.get((metric, m)) for m in models]
        counts = sorted({r["n"] for r in found if r})
        unscored = max((r["n_unscored"] for r in found if r), default=0)
        n = "–".join(f"{c:,}" for c in dict.fromkeys((counts[0], counts[-1]))) if counts else ""
        table.add_row(Text(metric), *(_value(r) for r in found), n + (f" (+{unscored:,} unscored)" if unscored else ""))
    return table


def _value(row: Row | None) -> Text:
    if row is None:
        return Text("–", style="dim")
    if row["value"] is None or math.isnan(row["value"]):
        return Text("undefined", style="dim italic")
    text = Text(f"{row['value']:.3f}")
    if row["low"] is not None and row["high"] is not None:
        text.append(f" {row['low']:.3f}–{row['high']:.3f}", style="dim")
    return text
