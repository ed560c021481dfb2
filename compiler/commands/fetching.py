"""`qualm fetch`: bring the datasets and models of a spec."""

from __future__ import annotations

import re
import sys
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from qualm.compiler.commands.options import JsonOption, SpecsOrDefaultArgument
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.entries import completion
from qualm.registry.plugins.registry import MAX_NUMBER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qualm.compiler.plan.plan import Plan
    from qualm.compiler.run.fetch import FetchItem


def fetch(
    specs: SpecsOrDefaultArgument = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", metavar="CARD", help="Fetch this card's entry, without a spec.", autocompletion=completion.cards, show_default=False
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=1, max=MAX_NUMBER, help="Fetch what this many questions of each dataset need, if its source has single images."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Print the table and fetch nothing.")] = False,
    upgrade: Annotated[bool, typer.Option("--upgrade", help="Pin the newest commits of branches and tags, and fetch those.")] = False,
    accept_licence: Annotated[bool, typer.Option("--accept-licence", help="Accept the conditions of all licences in the table.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Download the datasets and models of specs, after a table of sources, sizes and licences.

    Commits of the Hugging Face hub and checksums of files are pinned in registry/fetch.lock, which you commit. The
    same command resumes an interrupted download. Datasets become entries of registry/data/; models go to the hub's
    cache (HF_HOME). HF_ENDPOINT and HF_TOKEN work as usual.

    With a `limit` (or `--limit`), only the images of the chosen questions are downloaded, if their source has
    single images.

    Exit code 1 if anything failed or is left to do by hand; the lines above say what. More in docs/how-to/fetch.md.

    [bold]Examples[/]

      qualm fetch vlm_uqbench --dry-run
      qualm new mine --from vlm_uqbench --limit 50 && qualm fetch mine
      qualm fetch real_models_blink real_models_mathvista
      qualm fetch --data haloquest
    """
    from qualm.compiler.run.fetch import item_of_card, items_of

    if data and specs:
        raise ProjectError("--data names cards to fetch in place of a spec's; leave out one of them")
    project = Project()
    names: list[str | None] = [*dict.fromkeys(specs or ())]
    plans = [] if data else [project.plan(name) for name in names or [None]]
    fetched = FetchOutcome()
    options = FetchOptions(dry_run, accept_licence, as_json)
    if data:
        _fetch([item_of_card(project.root, name, upgrade) for name in data], ", ".join(data), options, fetched)
    for plan in plans:
        if len(plans) > 1 and not as_json:
            typer.echo(f"{plan.spec}:")
        n_before = len(fetched.done)
        _fetch(items_of(plan, project.root, limit, upgrade, _unfinished(project, plan)), plan.spec, options, fetched)
        if len(fetched.done) > n_before and project.is_compiled(plan.spec):
            project.compile([plan.spec])
    if as_json:
        from qualm.registry.text import print_json

        items = {item.what: item.as_json() for item in fetched.items}
        print_json({"items": list(items.values()), "fetched": fetched.done, "failed": {**fetched.left, **fetched.failures}})
    elif not dry_run:
        _print_end(project, [plan.spec for plan in plans], fetched)
    if (fetched.left or fetched.failures) and not dry_run:
        raise typer.Exit(1)


@dataclass(frozen=True)
class FetchOptions:
    """Flags of `qualm fetch`: dry run, accept licences, print JSON."""

    dry_run: bool
    accept_licence: bool
    as_json: bool


@dataclass
class FetchOutcome:
    """Result of `qualm fetch`: items, and notes on those done, failed or not fetched."""

    items: list[FetchItem] = field(default_factory=list)
    done: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    """Notes of items that must be fetched by hand or whose source does not answer."""


def _fetch(items: Sequence[FetchItem], title: str, options: FetchOptions, fetched: FetchOutcome) -> None:
    """Print items; unless it is a dry run, ask about licences and fetch; update `fetched`."""
    from qualm.compiler.run.fetch import BY_HAND, FAILED

    if not options.as_json:
        _print(items, title)
    fetched.items += items
    fetched.left |= {item.what: "\n".join(item.notes) for item in items if item.state in (BY_HAND, FAILED)}
    if not options.dry_run:
        _require_acceptance(items, options.accept_licence)
        for item in items:
            _bring(item, fetched.done, fetched.failures, options.as_json)


def _unfinished(project: Project, plan: Plan) -> list[Plan]:
    """Return the plans of other specs whose models `plan` needs and that must run first."""
    from qualm.compiler.project.rebuilds import ACTIVE, forecast

    default, before = project.run_wide.default, project.before(plan)
    return [each for n, each in enumerate(before) if any(f.action in ACTIVE for f in forecast(each, project.root, default, before[:n]))]


def _bring(item: FetchItem, done: dict[str, str], failures: dict[str, str], as_json: bool) -> None:
    from qualm.registry.entries.adding import AddError
    from qualm.registry.entries.lock import FetchError
    from qualm.registry.entries.printing import progress_line

    if item.bring is None:
        return
    on_terminal = sys.stderr.isatty() and not as_json
    try:
        with progress_line(on_terminal and item.kind != "model") as progress:
            done[item.what] = item.bring(progress, on_terminal)
    except (FetchError, AddError) as error:
        failures[item.what] = str(error)
    else:
        if not as_json:
            typer.echo(f"{item.what}: {done[item.what]}")


def _require_acceptance(items: Sequence[FetchItem], accepted: bool) -> None:
    """Print licence terms and ask; ProjectError if one is declined or there is no terminal."""
    for item in (item for item in items if item.bring is not None and item.terms and not accepted):
        typer.echo(f"{item.what}: {item.terms} ({item.licence})")
        if not (sys.stdin.isatty() and typer.confirm(say.ACCEPT_TERMS)):
            raise ProjectError(f"{item.what}: was not fetched; say --accept-licence if you accept its licence ({item.licence})")


def _print(items: Sequence[FetchItem], title: str) -> None:
    from qualm.compiler.project.views import console
    from qualm.compiler.run.fetch import TO_FETCH
    from qualm.registry.system.grids import Grid
    from qualm.registry.text import format_size, plain

    out = console()
    if not items:
        out.print(say.NEEDS_NO_FILES.format(title=plain(title)))
        return
    columns = [(name, "right" if name == "size" else "left") for name in ("what", "state", "size", "checksums", "licence", "from")]
    grid = Grid(columns)
    for item in items:
        at = f" at {item.revision[:12]}" if item.revision else ""
        size = "" if not item.files else format_size(item.size) if item.size is not None else "?"
        licence = re.split(" as generally|not verified| \\(|;|,", item.licence)[0] or "?"
        grid.add(item.what, item.state, size, item.checksums or "-", textwrap.shorten(licence, 28, placeholder="..."), item.source + at)
    grid.print(out)
    for item in items:
        for note in item.notes:
            out.print(f"[bold]{plain(item.what)}[/]: {plain(note)}", soft_wrap=True)
    if untried := [item.what for item in items if not item.is_tried]:
        out.print(say.ADDRESSES_NOT_TRIED.format(names=plain(", ".join(untried))), soft_wrap=True)
    coming = [item for item in items if item.state == TO_FETCH]
    known = sum(file.size or 0 for item in coming for file in item.files)
    unknown = sum(file.size is None for item in coming for file in item.files)
    if unknown:
        out.print(say.TO_FETCH_AND_UNKNOWN.format(n=len(coming), of=len(items), size=format_size(known), unknown=unknown))
    else:
        out.print(say.TO_FETCH.format(n=len(coming), of=len(items), size=format_size(known)))


def _print_end(project: Project, specs: Sequence[str], fetched: FetchOutcome) -> None:
    from qualm.registry.entries import lock

    if fetched.done and (project.root / lock.FILE).exists():
        typer.echo(say.FETCHED_PINNED.format(file=lock.FILE))
    for what, why in fetched.failures.items():
        typer.echo(f"{what}: {why}", err=True)
    if fetched.left:
        typer.echo(say.NOT_FETCHED.format(names=", ".join(fetched.left)), err=True)
    if not fetched.failures and not fetched.left and specs:
        typer.echo(say.NEXT_COMMAND.format(command=f"qualm run {' '.join(specs)}"))
