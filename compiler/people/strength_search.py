"""`qualm calibrate --auto`: the search, its table, its curve on disk, and the value written into the spec."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from qualm.compiler.people import edit_yaml
from qualm.compiler.people.strength_entry import Entry
from qualm.compiler.people.strength_wanted import OUTPUT, Wanted, range_of
from qualm.compiler.resolve.resolved import Resolved
from qualm.compiler.spec.errors import ProjectError

if TYPE_CHECKING:
    from qualm.runners.runtime.stage import Stage
    from qualm.runners.tools.strengths.bench import Bench
    from qualm.runners.tools.strengths.effects import Goal
    from qualm.runners.tools.strengths.knobs import Knob
    from qualm.runners.tools.strengths.search import SearchOutcome


def search_strength(
    resolved: Resolved, entry: Entry, bench: Bench, knob: Knob, goal: Goal, wanted: Wanted, place: edit_yaml.Place, stage: Stage
) -> bool:
    """Finds the strength, shows and keeps the curve, and writes the strength into the spec if that is wanted. False if there is none.

    Raises:
        ProjectError: the scale or the range is none.
    """
    from qualm.runners.tools.strengths import curve
    from qualm.runners.tools.strengths.knobs import written
    from qualm.runners.tools.strengths.search import search

    if wanted.scale not in ("auto", "linear", "log"):
        raise ProjectError(f"--scale: expected auto, linear or log, got '{wanted.scale}'")
    where = bench.range_of(knob, range_of(wanted, knob), wanted.scale)
    found = search(lambda strengths: bench.measure(goal, knob.name, strengths), where, goal.target, display=goal.display)
    who = f"{bench.respondent.label}'s answers to " if bench.respondent is not None else ""
    title = f"{entry.plugin.name}: {knob.name}, {goal.title}, {who}{bench.dataset.name}"
    _print(found, goal, title)
    for path in _files(resolved, entry, bench, knob, goal, found, wanted.output):
        typer.echo(f"curve: {path}")
    if stage.counters:
        typer.echo("engine: " + ", ".join(f"{n:,} {what}" for what, n in stage.counters.items()))
    if found.chosen is None:
        typer.echo(f"no strength: {found.why}")
        return False
    value = found.chosen.strength
    said = f"{written(value)}: {goal.title} {curve.phrase(found.chosen, goal)}"
    typer.echo(f"chosen: {knob.name} {said}" + (f" ({found.why})" if found.why else ""))
    if wanted.write:
        how = (
            f"--share {goal.display(goal.target):g}" if wanted.distance is None else f"--distance {goal.name}={goal.display(goal.target):g}"
        )
        comment = f"{said} for {who}{bench.dataset.name}; `qualm calibrate --auto {how}`, seed {resolved.seed}"
        point = entry.args[knob.name] if entry.pointed and knob.name in entry.given else None
        where_to = replace(place, parameter=knob.name, point=point)
        typer.echo(
            f"{edit_yaml.write(where_to, value, 'add' if wanted.add else 'replace', comment)}; next: qualm compile {place.file.stem}"
        )
    return True


def _print(found: SearchOutcome, goal: Goal, title: str) -> None:
    from rich.text import Text

    from qualm.registry.terminal.console import Console
    from qualm.registry.terminal.grids import Grid
    from qualm.runners.tools.strengths import curve
    from qualm.runners.tools.strengths.knobs import written

    grid = Grid([(name, "right") for name in ("strength", "value", "95% interval", "n", "left out", "")], Text(title))
    for row in curve.rows(found, goal):
        interval = f"{row['low']:.3g} to {row['high']:.3g}"
        mark = "chosen" if row["chosen"] else ""
        grid.add(written(row["strength"]), f"{row['value']:.3g}", interval, str(row["n"]), str(row["left_out"] or ""), mark)
    grid.print(Console(highlight=False))


def _files(
    resolved: Resolved, entry: Entry, bench: Bench, knob: Knob, goal: Goal, found: SearchOutcome, output: Path | None
) -> Iterator[Path]:
    """The curve on disk: CSV and SVG, named by what was asked."""
    from qualm.runners.tools.strengths import curve

    folder = output or Path(OUTPUT) / resolved.spec.name
    folder.mkdir(parents=True, exist_ok=True)
    parts = [entry.plugin.name, knob.name, goal.slug, bench.dataset.name, *([bench.respondent.label] if bench.respondent else [])]
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", "_".join(parts))
    texts = {"csv": curve.csv_text(found, goal), "svg": curve.svg_text(found, goal, f"{entry.plugin.name}: {knob.name}")}
    for suffix, text in texts.items():
        path = folder / f"{stem}.{suffix}"
        path.write_text(text, encoding="utf-8")
        yield path
