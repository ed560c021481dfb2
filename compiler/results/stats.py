"""`qualm stats`: counts of each dataset, pairs by recipe, and shortcuts that need no image."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.integrity import report_changed
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.system import textfiles
from qualm.registry.system.console import Console
from qualm.registry.system.tables import plain_table
from qualm.registry.text import print_json

ALL = "all"
MAX_COLUMNS = 7
"""With more categories than this they go down the side."""
_SHORT = {"images (perturbed/clean)": "seen", "questions (IDK/answerable)": "asked"}
_PICTURES, _QUESTIONS = _SHORT


def show_statistics(project: Project, spec: str | None, as_json: bool) -> None:
    """Print counts and shortcuts of a spec's datasets on disk; as text, name the missing ones.

    Raises:
        ProjectError: none of them is.
    """
    plan = project.plan(spec)
    folders = {s.params["dataset"]: s.outputs["dataset"] for s in plan.writers("dataset")}
    tables = {s.params["dataset"]: s.outputs["shortcuts"] for s in plan.writers("shortcuts")}
    report_changed(project.root, [*folders.values(), *tables.values()])
    statistics = {name: read_statistics(project.root / folder) for name, folder in folders.items()}
    for name, counts in statistics.items():
        if counts is not None:
            table = project.root / tables[name] if name in tables else None
            counts["without_looking"] = read_without_looking(name, project.root / folders[name], table)
    there = {name: counts for name, counts in statistics.items() if counts is not None}
    if not there:
        raise ProjectError(
            f"no dataset of {plan.spec} is on disk; `dvc pull` fetches what others have made, `qualm run {plan.spec}` makes it"
        )
    if as_json:
        print_json(there)
        return
    console = Console()
    for name, counts in there.items():
        print_statistics(name, counts, console)
    for name in statistics.keys() - there.keys():
        console.print(Text(say.DATASET_NOT_HERE.format(dataset=name, folder=folders[name], spec=plan.spec), style="dim"))


def read_statistics(folder: Path) -> dict[str, Any] | None:
    """Return a dataset folder's counts, stored or counted; None if absent.

    Raise ProjectError if the stored ones are damaged.
    """
    from qualm.runners.data.statistics import FILE, read_counted_samples, statistics

    if not (folder / FILE).is_file():
        return statistics(read_counted_samples(folder)) if (folder / "samples.parquet").is_file() else None
    try:
        counts: dict[str, Any] = json.loads(textfiles.read_text(folder / FILE))
    except ValueError as error:
        raise ProjectError(f"{folder / FILE}: not JSON ({error}); `qualm run SPEC` re-creates it") from error
    return counts


def read_without_looking(name: str, folder: Path, table: Path | None) -> list[dict[str, Any]]:
    """Return how well question or image alone predict answerability, a row each; or [].

    Their columns are SHORTCUTS; there are none with one class.
    """
    from qualm.registry.sample import SHORTCUTS
    from qualm.runners.data.aligned import read_samples
    from qualm.runners.results.shortcuts import measure_shortcuts, with_design
    from qualm.runners.results.tables import scan

    is_stored = table is not None and table.is_file()
    rows = scan(table, SHORTCUTS).collect().to_dicts() if is_stored else measure_shortcuts(name, folder)
    return with_design(rows, read_samples(name, folder)) if rows else []


def print_statistics(name: str, counts: Mapping[str, Any], console: Console) -> None:
    """Print one dataset's counts by category and split, its recipes and shortcuts."""
    across = _counts(name, counts, across=True)
    fits = len(counts["categories"]) < MAX_COLUMNS and _width(across, console) <= console.width
    table = across if fits else _counts(name, counts, across=False)
    table.width = _width(table, console)  # wider than the terminal, if need be: no number is broken in two
    console.print(table, crop=False)
    if counts.get("recipes"):
        console.print(_recipes(counts))
    for reason, n in counts.get("dropped", {}).items():
        console.print(say.PAIRS_LEFT_OUT.format(pairs=say.count(n, "pair"), why=reason))
    alike = counts.get("near_duplicates")
    if alike and alike["pairs"]:
        between = ", ".join(say.LOOK_ALIKE_BETWEEN.format(n=n, splits=pair) for pair, n in alike["between"].items())
        outcome = say.LOOK_ALIKE_LEFT_OUT if alike["dropped"] else say.LOOK_ALIKE_KEPT
        console.print(say.LOOK_ALIKE.format(bits=alike["distance"], counts=between, outcome=outcome))
    if counts.get("without_looking"):
        _print_without_looking(counts["without_looking"], console)
    console.print()


def _print_without_looking(rows: list[dict[str, Any]], console: Console) -> None:
    from qualm.runners.results.shortcuts import HEADER, NOTE, format_cells

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in (say.WITHOUT_LOOKING.format(column=HEADER[0]), *HEADER[1:]):
        table.add_column(column, justify="left" if column.endswith(HEADER[0]) else "right", overflow="fold")
    for line in format_cells(rows):
        table.add_row(*map(Text, line))
    table.width = _width(table, console)
    console.print(table, crop=False)
    console.print(Text(f"  {NOTE}", style="dim"))


def _width(table: Table, console: Console) -> int:
    """Return the width in characters that a table needs unwrapped."""
    return Measurement.get(console, console.options.update(max_width=1000), table).maximum


def _counts(name: str, counts: Mapping[str, Any], across: bool) -> Table:
    """Return a table of counts, with a column per category if `across`, else a row."""
    cells, categories = counts["cells"], [*counts["categories"], ALL]
    rows: list[tuple[str, str, dict[str, str]]] = []
    for split in counts["splits"]:
        here = cells[split]
        rows.append((split, _PICTURES, {c: _pair(here[c]["perturbed"], here[c]["clean"]) for c in categories}))
        rows.append((split, _QUESTIONS, {c: _pair(here[c]["idk"], here[c]["answerable"]) for c in categories}))
    total = {c: cells[ALL][c] for c in categories}
    both = {c: f"{t['perturbed'] + t['clean']:,}/{t['idk'] + t['answerable']:,}" for c, t in total.items()}
    rows.append(("total", "pictures/questions", both))
    table = plain_table(Text(name, style="bold"))
    if across:
        for column in ("split", ""):
            table.add_column(column, overflow="fold")
        for category in categories:
            table.add_column(_heading(category), justify="right", overflow="fold")
        for split, what, values in rows:
            table.add_row(split if what != _QUESTIONS else "", what, *values.values())
    else:
        table.caption = f"seen: {_PICTURES}; asked: {_QUESTIONS}"
        table.caption_justify = "left"
        table.add_column("category", overflow="fold")
        for split, what, _ in rows:
            table.add_column(f"{split}\n{_SHORT.get(what, 'seen/asked')}", justify="right", overflow="fold")
        for category in categories:
            table.add_row(Text(category or "(none)"), *(values[category] for _, _, values in rows))
    return table


def _pair(a: int, b: int) -> str:
    return f"{a:,}/{b:,}" if a else f"-/{b:,}"


def _heading(category: str) -> Text:
    """Return a category with its first "/" as a line break; "(none)" for ""."""
    return Text(category.replace("/", "\n", 1) if category else "(none)")


def _recipes(counts: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("recipe", overflow="fold")
    table.add_column("pairs", justify="right")
    table.add_column("dropped", overflow="fold")
    for recipe in counts["recipes"]:
        dropped = ", ".join(f"{n:,} {reason}" for reason, n in recipe["dropped"].items()) or "-"
        table.add_row(Text(recipe["label"]), f"{recipe['pairs']:,}", Text(dropped))
    return table
