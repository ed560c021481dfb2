"""Writing a spec: one to start from, what it can name, and its schema for editors."""

from __future__ import annotations

from typing import Annotated

import typer

from compiler.commands.options import JsonOption
from compiler.project import Project


def ls(
    kind: Annotated[str | None, typer.Argument(help="metrics, estimators, models...; all kinds if left out.", show_default=False)] = None,
    name: Annotated[str | None, typer.Argument(help="One plugin, whose help and parameters are shown.", show_default=False)] = None,
    published: Annotated[bool, typer.Option("--published", help="The table of published models: which load, how large they are.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the plugins a spec can name, or explain one; `qualm ls models --published` lists the models that load by name."""
    from compiler.views import plugin_table, print_plugin, published_table

    if published:
        published_table(kind, name, as_json)
    elif name is not None and kind is not None:
        print_plugin(kind, name, as_json)
    else:
        plugin_table(kind, as_json)


def schema() -> None:
    """Print the JSON Schema of specs, for editors; `qualm compile` keeps it in specs/spec.schema.json."""
    from compiler.schema import schema_text

    typer.echo(schema_text(), nl=False)


def new(
    name: Annotated[str, typer.Argument(help="Name of the new spec.")],
    extends: Annotated[str | None, typer.Option("--extends", help="Begin as a variant of this spec.")] = None,
) -> None:
    """Write a spec to start from, commented, and say what to do next."""
    from compiler.new import write_new

    typer.echo(write_new(Project(), name, extends))
