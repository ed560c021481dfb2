"""`qualm calibrate --auto`: search a strength, print and save its curve, write the value into the spec."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from qualm.compiler.commands import edit_yaml
from qualm.compiler.commands.strength_entry import PerturbationEntry
from qualm.compiler.commands.strength_request import OUTPUT, StrengthRequest, range_of
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.spec.resolved import Resolved
from qualm.registry.formats import atomic

if TYPE_CHECKING:
    from qualm.runners.review.bench import Bench
    from qualm.runners.review.effects import Goal
    from qualm.runners.review.knobs import Knob
    from qualm.runners.review.search import SearchOutcome
    from qualm.runners.runtime.stage import Stage


def search_strength(
    resolved: Resolved,
    entry: PerturbationEntry,
    bench: Bench,
    knob: Knob,
    goal: Goal,
    request: StrengthRequest,
    place: edit_yaml.EditTarget,
    stage: Stage,
) -> bool:
    """Search the strength, print and save the curve, and write it into the spec on request.

    Returns:
        False if no strength has the effect.
    """
    from qualm.runners.review import curve
    from qualm.runners.review.knobs import written
    from qualm.runners.review.search import search

    if request.scale not in ("auto", "linear", "log"):
        raise ProjectError(f"--scale: expected auto, linear or log, got '{request.scale}'")
    where = bench.range_of(knob, range_of(request, knob), request.scale)
    outcome = search(lambda strengths: bench.measure(goal, knob.name, strengths), where, goal.target, display=goal.display)
    who = f"{bench.respondent.label}'s answers to " if bench.respondent is not None else ""
    title = f"{entry.plugin.name}: {knob.name}, {goal.title}, {who}{bench.dataset.name}"
    _print(outcome, goal, title)
    for path in _files(resolved, entry, bench, knob, goal, outcome, request.output):
        typer.echo(f"curve: {path}")
    if stage.counters:
        typer.echo("engine: " + ", ".join(f"{n:,} {what}" for what, n in stage.counters.items()))
    if outcome.chosen is None:
        typer.echo(f"no strength: {outcome.why}")
        return False
    value = outcome.chosen.strength
    summary = f"{written(value)}: {goal.title} {curve.phrase(outcome.chosen, goal)}"
    typer.echo(f"chosen: {knob.name} {summary}" + (f" ({outcome.why})" if outcome.why else ""))
    if request.write:
        how = (
            f"--share {goal.display(goal.target):g}"
            if request.distance is None
            else f"--distance {goal.name}={goal.display(goal.target):g}"
        )
        comment = f"{summary} for {who}{bench.dataset.name}; `qualm calibrate --auto {how}`, seed {resolved.seed}"
        point = entry.args[knob.name] if entry.pointed and knob.name in entry.named else None
        where_to = replace(place, parameter=knob.name, point=point)
        typer.echo(
            f"{edit_yaml.write(where_to, value, 'add' if request.add else 'replace', comment)}; next: qualm compile {place.file.stem}"
        )
    return True


def _print(outcome: SearchOutcome, goal: Goal, title: str) -> None:
    from rich.text import Text

    from qualm.registry.system.console import Console
    from qualm.registry.system.grids import Grid
    from qualm.runners.review import curve
    from qualm.runners.review.knobs import written

    grid = Grid([(name, "right") for name in ("strength", "value", "95% interval", "n", "left out", "")], Text(title))
    for row in curve.rows(outcome, goal):
        interval = f"{row['low']:.3g} to {row['high']:.3g}"
        mark = "chosen" if row["chosen"] else ""
        grid.add(written(row["strength"]), f"{row['value']:.3g}", interval, str(row["n"]), str(row["left_out"] or ""), mark)
    grid.print(Console())


def _files(
    resolved: Resolved, entry: PerturbationEntry, bench: Bench, knob: Knob, goal: Goal, outcome: SearchOutcome, output: Path | None
) -> Iterator[Path]:
    from qualm.runners.review import curve

    folder = output or Path(OUTPUT) / resolved.spec.name
    parts = [entry.plugin.name, knob.name, goal.slug, bench.dataset.name, *([bench.respondent.label] if bench.respondent else [])]
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", "_".join(parts))
    texts = {"csv": curve.csv_text(outcome, goal), "svg": curve.svg_text(outcome, goal, f"{entry.plugin.name}: {knob.name}")}
    for suffix, text in texts.items():
        path = folder / f"{stem}.{suffix}"
        atomic.write_text(path, text)
        yield path
