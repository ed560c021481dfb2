"""Commands that write and list specs: `ls`, `schema`, `clean`, `init`, `new`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from qualm.compiler.commands import completion
from qualm.compiler.commands.options import JsonOption
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.entries import completion as registered
from qualm.registry.plugins.registry import KINDS, MAX_NUMBER, NAME_PATTERN


def ls(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help="metrics, estimators, models...; all kinds if left out. Or a method by any of its names.",
            show_default=False,
            autocompletion=registered.kinds,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="One plugin, whose help and parameters are shown.", show_default=False, autocompletion=registered.plugins
        ),
    ] = None,
    published: Annotated[bool, typer.Option("--published", help="The table of published models: which load, how large they are.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the plugins that a spec can name, or explain one.

    `qualm ls EigenScore` finds a method by its name in papers and other libraries. Any other word lists the plugins
    that mention it.
    """
    from qualm.compiler.commands.listing import plugin_table, print_named, print_plugin, published_table

    if published:
        published_table(kind, name, as_json)
    elif name is not None and kind is not None:
        print_plugin(kind, name, as_json)
    elif kind is not None and kind not in KINDS:
        print_named(kind, as_json)
    else:
        plugin_table(kind, as_json)


def schema() -> None:
    """Print the JSON Schema of specs, for editors; `qualm compile` writes it into specs/."""
    from qualm.compiler.spec.json_schema import schema_text

    typer.echo(schema_text(), nl=False)


def clean(
    name: Annotated[str, typer.Argument(help="Name of a spec whose file is gone.", autocompletion=completion.leftovers)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove it; otherwise only list what would be removed.")] = False,
) -> None:
    """List, or with --yes remove, compiled files, results and records of a deleted spec.

    Git and DVC's cache keep what was committed: a checkout of an earlier commit restores everything.
    """
    from qualm.compiler.plan.compiled_files import list_compiled, remove

    project = Project()
    if name in project.specs():
        raise ProjectError(f"specs/{name}.yaml still exists; `qualm clean` removes what a deleted spec left behind: delete the file first")
    left = list_compiled(project.root, name) if re.match(NAME_PATTERN, name) else None
    if left is None or not left.places:
        raise ProjectError(f"nothing is left of '{name}' here; `qualm compile --check` names deleted specs that left something")
    for place in left.places:
        typer.echo((say.FILE_REMOVED if yes else say.WOULD_REMOVE).format(path=place))
    if yes:
        remove(project.root, left)
    else:
        typer.echo(say.CLEAN_REMOVES.format(spec=name))


def init(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The new project's folder.")]) -> None:
    """Create a project with git, DVC, the quickstart, and places for data and plugins."""
    from qualm.compiler.project.new_project import write_project

    typer.echo(write_project(folder))


def new(
    name: Annotated[str | None, typer.Argument(help="Name of the new spec.", show_default=False)] = None,
    extends: Annotated[
        str | None, typer.Option("--extends", help="Begin as a variant of this spec.", autocompletion=completion.specs)
    ] = None,
    benchmark: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="BENCHMARK", help="Begin as a copy of a benchmark that comes with Qualm.", autocompletion=completion.shipped
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=2, max=MAX_NUMBER, help="With --from or --extends: at most this many questions of each dataset."),
    ] = None,
    list_shipped: Annotated[bool, typer.Option("--list", help="List those benchmarks.")] = False,
) -> None:
    """Write a commented spec as a starting point and print the next steps.

    [bold]Examples[/]

      qualm new mine
      qualm new mine --extends quickstart
      qualm new --list
      qualm new mine --from vlm_uqbench
      qualm new mine --from vlm_uqbench --limit 50
    """
    from qualm.compiler.project.new_spec import write_new

    if list_shipped:
        from qualm.compiler.project.shipped import shipped

        titles = shipped()
        width = max(map(len, titles))
        for each, title in titles.items():
            typer.echo(f"{each:{width}}  {title}")
        return
    if name is None:
        raise ProjectError("expected a name for the new spec; `qualm new mine` writes specs/mine.yaml")
    typer.echo(write_new(Project(), name, extends, benchmark, limit))
