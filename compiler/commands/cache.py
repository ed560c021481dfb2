"""`qualm cache`: show and reduce the store of answers (`qualm.runners.data.maintenance`).

Each command imports NumPy and Arrow only if it needs them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qualm.compiler.commands.audit import audit
from qualm.compiler.commands.options import JsonOption
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.entries.printing import print_labelled
from qualm.registry.text import format_size, print_json
from qualm.runners.runtime.libraries import are_equal_versions

if TYPE_CHECKING:
    from qualm.runners.data.maintenance import CollectResult, Holding
    from qualm.runners.runtime.code_digest import Engine

app = typer.Typer(
    name="cache",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""The store of answers: what it holds, how big it is, making it smaller.

Answers of your models are kept in the folder of the setting `store` (.qualm/store) by their content: weights, code that answers,
prompt, pixels, decoding. That is why a killed run goes on where it was, and why raising the number of draws computes only the new
ones. Nothing here is needed to read results; what is removed is computed again when it is asked for. More in
docs/explanation/inference.md.""",
)

FAMILIES = {"answer": "answers", "options": "answers", "draw": "draws"}
"""Kind of part -> the family it is counted in; all others are signals."""


@app.command()
def du(as_json: JsonOption = False) -> None:
    """Show what the store holds, by model and engine.

    An engine is a release of Qualm with its libraries. Answers that no run uses are marked. [bold]old[/]: of
    another model plugin or engine version than the present specs use. [bold]library[/]: of libraries that the
    setting `libraries` does not count as equal. [bold]refused[/]: by `qualm cache audit`. [bold]unclear[/]: a spec
    has mistakes.

    Checksums are verified. Damaged segments are counted, and computed again when a run needs them.

    [bold]Examples[/]

      qualm cache du
      qualm cache du --json
    """
    from qualm.runners.data.maintenance import list_holdings

    project = Project()
    current = users(project)
    rows = list_holdings(_root(project))
    if as_json:
        print_json([_facts(h, current) for h in rows])
    else:
        _table(rows, current)


@app.command()
def gc(
    older_than: Annotated[
        float | None,
        typer.Option("--older-than", metavar="DAYS", min=0, max=100_000, help="Remove answers that no run has used for this many days."),
    ] = None,
    unused: Annotated[
        bool,
        typer.Option("--unused", help="Remove answers that no run uses: those that `qualm cache du` marks."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing, only say what would be done.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compact the store, or remove answers that are old or unused.

    Without options, no answer is lost: the files of one model are merged into files of 64 MiB, duplicates are kept
    once, and damaged or partial files are removed.

    --older-than and --unused remove answers; together, only those that both would remove. Answers used within the
    last 15 minutes are kept.

    It can be killed at any time, and runs can continue meanwhile, also on other machines that share the folder.

    [bold]Examples[/]

      qualm cache gc --dry-run
      qualm cache gc                          once in a while, and after long runs
      qualm cache gc --unused                 after code or a library changed
      qualm cache gc --unused --older-than 30
    """
    from qualm.runners.data.maintenance import collect

    project = Project()
    root = _root(project)
    current = users(project) if unused else Users({}, "")
    if current.unreadable:
        spec = current.unreadable[0]
        raise ProjectError(f"specs/{spec}.yaml has mistakes, so which answers it uses is not known; see `qualm validate {spec}`")
    done = collect(root, older_than, (lambda holding: bool(current.state(holding))) if unused else None, dry_run)
    if as_json:
        counts = {"merged": done.merged, "into": done.into, "repeats": done.repeats, "leftovers": done.leftovers, "freed": done.freed}
        names = {"removed": [h.folder.name for h in done.removed], "in_use": [h.folder.name for h in done.busy]}
        print_json({"dry_run": dry_run, **counts, **names})
    else:
        _say(done, dry_run)


app.command()(audit)
FolderArgument = Annotated[str, typer.Argument(metavar="FOLDER", help="A folder's name or how it begins: `qualm cache du --json`.")]


@app.command()
def accept(folder: FolderArgument) -> None:
    """Use a folder of answers again that an audit has marked.

    [bold]Examples[/]

      qualm cache accept 1f0c3a
    """
    from qualm.runners.data.refusal import accept as unmark

    holding = _holding(folder)
    outcome = say.FOLDER_ACCEPTED if unmark(holding.folder) else say.FOLDER_NOT_REFUSED
    typer.echo(outcome.format(folder=holding.folder.name))


def _holding(name: str) -> Holding:
    from qualm.runners.data.maintenance import list_holdings

    project = Project()
    fitting = [h for h in list_holdings(_root(project)) if h.folder.name.startswith(name)]
    if len(fitting) != 1:
        matches = ", ".join(h.folder.name for h in fitting) or "none"
        raise ProjectError(f"expected the beginning of one folder's name in {_root(project)}, got '{name}', which fits {matches}")
    return fitting[0]


@dataclass(frozen=True)
class Users:
    engines: Mapping[str, tuple[Engine, tuple[str, ...]]]
    """Identity -> engine and names of specs."""
    policy: str
    """Setting `libraries`: which versions count as equal to the installed ones."""
    unreadable: tuple[str, ...] = ()
    """Specs with mistakes, whose models are unknown."""

    def state(self, holding: Holding) -> str:
        """Return why no run uses these answers: refused, old, unclear, library; "" if one does.

        `refused`; `old` = of another engine; `unclear` = perhaps of a spec with mistakes; `library` = of other libraries.
        """
        if holding.refusal:
            return "refused"
        engine, _ = self.engines.get(holding.engine, (None, ()))
        versions, libraries = holding.about.get("versions", {}), holding.about.get("libraries", {})
        if engine is None or not any(engine.accepts(part, versions) for part in holding.parts):
            return "unclear" if self.unreadable else "old"
        return "" if are_equal_versions(self.policy, libraries, engine.libraries) else "library"

    def specs(self, holding: Holding) -> list[str]:
        """Return the names of the specs whose runs use these answers; [] if none does."""
        return list(self.engines[holding.engine][1]) if not self.state(holding) else []


def users(project: Project) -> Users:
    """Return the engines that the project's specs use, with their specs, and invalid specs."""
    from qualm.compiler.spec.errors import SpecError
    from qualm.runners.runtime.code_digest import find_engine
    from qualm.runners.runtime.settings import FILE, read_settings

    engines: dict[str, tuple[Engine, tuple[str, ...]]] = {}
    unreadable: list[str] = []
    for spec in project.specs():
        try:
            resolved = project.resolve(spec)
        except SpecError:
            unreadable.append(spec)
            continue
        for module in sorted({m.ref.plugin.module for m in resolved.models}):
            used = find_engine(module)
            engines[used.identity] = (used, (*engines.get(used.identity, (used, ()))[1], spec))
    return Users(engines, read_settings(project.root / FILE).libraries, tuple(unreadable))


def _root(project: Project) -> Path:
    from qualm.runners.runtime.settings import FILE, read_settings

    return project.root / read_settings(project.root / FILE).store


def _facts(holding: Holding, current: Users) -> dict[str, Any]:
    return {
        "folder": str(holding.folder),
        "model": holding.about.get("label"),
        "plugin": holding.about.get("plugin"),
        "model_digest": holding.about.get("model"),
        "engine_digest": holding.engine or None,
        "qualm": holding.about.get("qualm"),
        "versions": holding.about.get("versions"),
        "libraries": holding.about.get("libraries"),
        "state": current.state(holding) or "used",
        "refusal": holding.refusal or None,
        "specs": current.specs(holding),
        "stages": holding.stages,
        "segments": holding.segments,
        "parts": dict(sorted(holding.parts.items())),
        "repeats": holding.repeats,
        "bytes": holding.bytes,
        "damaged": holding.damaged,
        "leftover_bytes": holding.leftover_bytes,
        "last_use": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(holding.last_use)),
    }


def _table(rows: list[Holding], current: Users) -> None:
    from rich.text import Text

    from qualm.compiler.project.views import console
    from qualm.registry.system.console import Console
    from qualm.registry.system.grids import Grid

    out = console()
    if not rows:
        out.print(say.STORE_IS_EMPTY)
        return
    names = ("model", "engine", "answers", "draws", "signals", "segments", "size", "last used")
    grid = Grid([(name, "left" if name in ("model", "engine", "last used") else "right") for name in names])
    users = []
    for h in rows:
        counts = dict.fromkeys(("answers", "draws", "signals"), 0)
        for part, n in h.parts.items():
            counts[FAMILIES.get(part, "signals")] += n
        engine = _engine(h)
        why = current.state(h)
        state = engine if not why else f"[yellow]{engine} {why[:7]}[/]"
        numbers = [f"{n:,}" if n else "-" for n in (*counts.values(), h.segments)]
        grid.add(str(h.about.get("label", "unknown")), Text.from_markup(state), *numbers, format_size(h.bytes), _ago(h.last_use))
        users.append((f"{h.about.get('label', 'unknown')} {engine}", say.list_some(h.stages, 2)))
    grid.print(Console())
    out.print(f"\n{say.USED_BY}")
    print_labelled(out, users)
    old = sum(h.bytes for h in rows if current.state(h) not in ("", "unclear"))
    notes = [say.STORE_SIZE.format(size=format_size(sum(h.bytes for h in rows)))]
    notes += [say.STORE_UNUSED.format(size=format_size(old), later=say.STORE_UNUSED_LATER if current.unreadable else "")] if old else []
    notes += [say.STORE_REFUSED.format(folder=h.folder.name[:8], why=h.refusal) for h in rows if h.refusal]
    notes += [say.SPEC_HAS_MISTAKES.format(spec=spec) for spec in current.unreadable]
    small = sum(h.segments for h in rows)
    notes += [say.STORE_SEGMENTS.format(n=small)] if small > 8 * len(rows) else []
    damaged = sum(h.damaged for h in rows)
    notes += [say.STORE_DAMAGED.format(segments=say.count(damaged, "damaged segment"))] if damaged else []
    out.print("\n" + "; ".join(notes))


def _engine(holding: Holding) -> str:
    torch = (holding.about.get("libraries") or {}).get("torch")
    return str(holding.about.get("qualm", "unknown")) + (f"/{torch}" if torch else "")


def _ago(then: float) -> str:
    seconds = max(0.0, time.time() - then)
    for name, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {name} ago"
    return "just now"


def _say(done: CollectResult, dry: bool) -> None:
    would = say.WOULD_BE if dry else ""
    lines = []
    if done.into:
        lines.append(say.SEGMENTS_MERGED.format(n=done.merged, would=would, into=done.into))
    if done.repeats:
        lines.append(say.REPEATS_DROPPED.format(n=done.repeats, would=would))
    if done.leftovers:
        lines.append(say.LEFTOVERS_REMOVED.format(n=done.leftovers, would=would))
    for holding in done.removed:
        label = holding.about.get("label", "unknown")
        lines.append(say.ANSWERS_REMOVED.format(n=holding.parts.total(), model=label, engine=_engine(holding), would=would))
    for holding in done.busy:
        lines.append(say.ANSWERS_IN_USE.format(model=holding.about.get("label", "unknown")))
    if lines:
        lines.append(say.SPACE_FREED.format(size=format_size(max(0, done.freed)), would=would))
    typer.echo("\n".join(lines or [say.NOTHING_TO_DO]))
