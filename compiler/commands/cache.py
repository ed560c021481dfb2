"""`qualm cache`: how big the store of answers is and of what, and keeping it small. See `qualm.runners.store.maintenance` for how.

Importing this module loads neither NumPy nor Arrow; each command loads what it needs.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.commands.printing import print_labelled
from qualm.registry.text import human, print_json

if TYPE_CHECKING:
    from qualm.runners.store.maintenance import Done, Holding

app = typer.Typer(
    name="cache",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""The store of answers: what it holds, how big it is, making it smaller.

Every answer that a model of yours ever gave is kept in .qualm/store by its content: weights, code that answers, prompt, pixels,
decoding. That is why a killed run goes on where it was, and why raising the number of draws computes only the new ones. Nothing
here is needed to read results; what is removed is computed again when it is asked for. More in docs/explanation/inference.md.""",
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]
FAMILIES = {"answer": "answers", "options": "answers", "draw": "draws"}
"""Kinds of parts, as they are counted; every other is a signal."""


@app.command()
def du(as_json: JsonOption = False) -> None:
    """Say what the store holds: a line for each model and engine, the last used first.

    An engine is the code that answers (comments left out) and the versions of its libraries. Answers of an engine that no
    present spec's model runs on are marked [bold]old[/]: no run will find them, until the code is what it was.

    Every segment is read and its checksum verified; damaged ones are counted, and computed again by the next run that needs them.

    [bold]Examples[/]

      qualm cache du
      qualm cache du --json
    """
    from qualm.runners.store.maintenance import holdings

    project = Project()
    current = engines(project)
    rows = holdings(_root(project))
    if as_json:
        print_json([_facts(h, current) for h in rows])
    else:
        _table(rows, current)


@app.command()
def gc(
    older_than: Annotated[
        float | None, typer.Option("--older-than", metavar="DAYS", min=0, help="Remove answers that no run has used for so many days.")
    ] = None,
    unused: Annotated[
        bool,
        typer.Option("--unused", help="Remove answers of engines that no present spec's model runs on: of older code."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing, only say what would be done.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make the store smaller: merge its many small files, drop repeats, tidy up after kills.

    Without options no answer is lost: a batch of answers is one file, and files of one model are merged into files of 64 MiB;
    answers that are there twice are kept once; damaged files and what killed runs left half-written are removed.

    With --older-than or --unused, answers are removed too; with both, only those that both would remove. What was used within
    the last 15 minutes stays: a run may be at it.

    It may be killed at any moment, and runs may go on meanwhile, here and on other machines that share the folder. Merged files
    stay for ten seconds before they go, for those who are reading them.

    [bold]Examples[/]

      qualm cache gc --dry-run
      qualm cache gc                          once in a while, and after long runs
      qualm cache gc --unused                 after code or a library changed
      qualm cache gc --unused --older-than 30
    """
    from qualm.runners.store.maintenance import collect

    project = Project()
    root = _root(project)
    done = collect(root, older_than, set(engines(project)) if unused else None, dry_run)
    if as_json:
        counts = {"merged": done.merged, "into": done.into, "repeats": done.repeats, "leftovers": done.leftovers, "freed": done.freed}
        names = {"removed": [h.folder.name for h in done.removed], "in_use": [h.folder.name for h in done.busy]}
        print_json({"dry_run": dry_run, **counts, **names})
    else:
        _say(done, dry_run)


def engines(project: Project) -> dict[str, list[str]]:
    """The engines that models of present specs run on: digest -> names of those specs.

    Raises:
        ProjectError: a spec cannot be read, so it cannot be said what is unused.
    """
    from qualm.compiler.spec.errors import SpecError
    from qualm.runners.runtime.code_digest import engine_digest

    specs_of: dict[str, list[str]] = {}
    for spec in project.specs():
        try:
            resolved = project.resolve(spec)
        except SpecError as error:
            raise ProjectError(
                f"specs/{spec}.yaml has mistakes, so which answers it uses is not known; see `qualm validate {spec}`"
            ) from error
        for module in sorted({m.ref.plugin.module for m in resolved.models}):
            specs_of.setdefault(engine_digest(module), []).append(spec)
    return specs_of


def _root(project: Project) -> Path:
    from qualm.runners.runtime.settings import FILE, read_settings

    return project.root / read_settings(project.root / FILE).store


def _facts(holding: Holding, current: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "folder": str(holding.folder),
        "model": holding.about.get("label"),
        "plugin": holding.about.get("plugin"),
        "model_digest": holding.about.get("model"),
        "engine_digest": holding.engine or None,
        "specs": current.get(holding.engine, []),
        "stages": holding.stages,
        "segments": holding.segments,
        "parts": dict(sorted(holding.parts.items())),
        "repeats": holding.repeats,
        "bytes": holding.bytes,
        "damaged": holding.damaged,
        "leftover_bytes": holding.leftover_bytes,
        "last_use": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(holding.last_use)),
    }


def _table(rows: list[Holding], current: dict[str, list[str]]) -> None:
    from rich.text import Text

    from qualm.compiler.terminal.views import console
    from qualm.registry.terminal.console import Console
    from qualm.registry.terminal.grids import Grid

    out = console()
    if not rows:
        out.print("the store is empty: nothing was answered here yet")
        return
    names = ("model", "engine", "answers", "draws", "signals", "segments", "size", "last used")
    grid = Grid([(name, "left" if name in ("model", "engine", "last used") else "right") for name in names])
    users = []
    for h in rows:
        counts = dict.fromkeys(("answers", "draws", "signals"), 0)
        for part, n in h.parts.items():
            counts[FAMILIES.get(part, "signals")] += n
        engine = h.engine[:8] or "unknown"
        state = engine if h.engine in current else f"[yellow]{engine} old[/]"
        stages = ", ".join(h.stages[:2]) + (f" and {len(h.stages) - 2} more" if len(h.stages) > 2 else "")
        numbers = [f"{n:,}" if n else "-" for n in (*counts.values(), h.segments)]
        grid.add(str(h.about.get("label", "unknown")), Text.from_markup(state), *numbers, human(h.bytes), _ago(h.last_use))
        users.append((f"{h.about.get('label', 'unknown')} {engine}", stages))
    grid.print(Console(highlight=False))
    out.print("\n[bold]used by[/]")
    print_labelled(out, users)
    old = sum(h.bytes for h in rows if h.engine not in current)
    notes = [f"{human(sum(h.bytes for h in rows))} in all"]
    notes += [f"{human(old)} of old engines (`qualm cache gc --unused` removes them)"] if old else []
    small = sum(h.segments for h in rows)
    notes += [f"{small:,} segments (`qualm cache gc` merges them)"] if small > 8 * len(rows) else []
    damaged = sum(h.damaged for h in rows)
    notes += [f"{damaged} damaged segments, whose answers are computed again when they are asked for"] if damaged else []
    out.print("\n" + "; ".join(notes))


def _ago(then: float) -> str:
    seconds = max(0.0, time.time() - then)
    for name, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {name} ago"
    return "just now"


def _say(done: Done, dry: bool) -> None:
    would = "would be " if dry else ""
    lines = []
    if done.into:
        lines.append(f"{done.merged:,} segments {would}merged into {done.into:,}")
    if done.repeats:
        lines.append(f"{done.repeats:,} repeated answers {would}dropped")
    if done.leftovers:
        lines.append(f"{done.leftovers:,} damaged or half-written files {would}removed")
    for holding in done.removed:
        label = holding.about.get("label", "unknown")
        lines.append(f"{holding.parts.total():,} answers of '{label}' by engine {holding.engine[:8] or 'unknown'} {would}removed")
    for holding in done.busy:
        lines.append(f"answers of '{holding.about.get('label', 'unknown')}' were used minutes ago and are kept; try again later")
    typer.echo("\n".join([*lines, f"{human(max(0, done.freed))} {would}freed"]) if lines else "nothing to do")
