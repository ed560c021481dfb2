"""What CertainlyUncertain says beside its scores, in the terminal: means over categories, and whether its metric is worth having."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.text import Text

from qualm.compiler.results.scores import Row
from qualm.compiler.results.tables import metrics_down, value_text
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.sample import CLEAN
from qualm.registry.terminal.console import Console
from qualm.registry.terminal.grids import Grid, in_parts

CENTRAL = ("f1_idk", "lave_idk_accuracy", "confidence_weighted_accuracy")
CATEGORY = "category="


def read_correlations(path: Path) -> list[Row]:
    """Read correlations over models, empty without the file; ProjectError for another table."""
    from qualm.registry.sample import CORRELATIONS
    from qualm.runners.runtime.records import RecordError, read_table

    if not path.is_file():
        return []
    try:
        rows: list[Row] = read_table(path, CORRELATIONS).to_pylist()
    except RecordError as error:
        raise ProjectError(str(error)) from error
    return rows


def show_category_means(rows: Sequence[Row], printed_rows: Sequence[Row], console: Console) -> None:
    """Print the means over categories that the paper calls totals, of data sets on which refusals are scored by category.

    Args:
        rows: all of the spec, slices among them.
        printed_rows: those that are printed over all questions.
    """
    over_all = [r for r in printed_rows if r["slice"] == "all" and r["metric"].partition("@")[0] in CENTRAL]
    for dataset in dict.fromkeys(r["dataset"] for r in over_all if r["metric"].partition("@")[0] == "f1_idk"):
        keys = {(r["metric"], r["model"]) for r in over_all if r["dataset"] == dataset}
        means = {(r["metric"], r["model"]): r for r in category_means(r for r in rows if r["dataset"] == dataset)}
        cells = {key: row for key, row in means.items() if key in keys}
        if all(math.isnan(row["value"]) for (metric, _), row in cells.items() if metric.partition("@")[0] == "f1_idk"):
            continue
        models = list(dict.fromkeys(model for _, model in cells))
        for grid in in_parts(models, partial(_means_table, dataset, cells), console.width):
            grid.print(console)
            console.print()


def _means_table(dataset: str, cells: Mapping[tuple[str, str], Row], models: Sequence[str]) -> Grid:
    title = Text(dataset, style="bold") + Text(" · mean of categories, unweighted, without interval (n: categories)")
    return metrics_down(title, {key: row for key, row in cells.items() if key[1] in models}, models, value_text)


def category_means(rows: Iterator[Row]) -> Iterator[Row]:
    """A row per model and metric, without interval; undefined where the score of one category is."""
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        part = row["slice"].removeprefix(CATEGORY)
        if row["variant"] == CLEAN and row["slice"].startswith(CATEGORY) and "/" in part and "*" not in part:
            values.setdefault((row["metric"], row["model"]), []).append(math.nan if row["value"] is None else row["value"])
    for (metric, model), parts in values.items():
        yield {"metric": metric, "model": model, "value": sum(parts) / len(parts), "low": None, "high": None, "n": len(parts)}


def show_claims(correlations: Sequence[Row], printed_rows: Sequence[Row], console: Console) -> None:
    """Print whether confidence-weighted accuracy goes with calibration more closely than accuracy does."""
    from qualm.runners.studies.confidence_weighted_accuracy import claims

    datasets = {r["dataset"] for r in printed_rows}
    for dataset, text in claims(correlations):
        if dataset in datasets:
            console.print(Text(f"{dataset} · {text}", style="dim"))
