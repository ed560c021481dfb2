"""Commands about the origin of results: `graph`, `lineage`, `cite`."""

from pathlib import Path
from typing import Annotated

import typer

from qualm.compiler.commands.options import JsonOption, SpecArgument
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec import sentences as say
from qualm.registry.system import atomic
from qualm.registry.text import print_json


def graph(
    spec: SpecArgument = None,
    form: Annotated[str, typer.Option("--format", "-f", help="dot, mermaid or svg.")] = "mermaid",
    full: Annotated[bool, typer.Option("--full", help="Every stage, not collapsed by kind.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file instead of the terminal.")] = None,
) -> None:
    """Draw the pipeline, collapsed by kind of stage."""
    from qualm.compiler.results.graph import draw

    text = draw(Project().plan(spec), form, full)
    if output is None:
        typer.echo(text)
    else:
        atomic.write_text(output, text)
        typer.echo(say.WROTE_FILE.format(file=output))


def cite(spec: SpecArgument = None, as_json: JsonOption = False) -> None:
    """Print the BibTeX of all that a benchmark used.

    A comment above each entry says what it is cited for: `qualm cite mine > mine.bib`. Parts without a known citation
    are listed at the end.
    """
    from qualm.compiler.results.cite import bibliography

    entries = bibliography(Project(), spec)
    if as_json:
        print_json(entries.as_json())
    else:
        typer.echo(entries.text(), nl=False)


def lineage(
    file: Annotated[str, typer.Argument(help="An output, such as results/quickstart/report.html.")],
    as_json: JsonOption = False,
) -> None:
    """Show what an output came from: stages, parameters, data, code, each with its hash."""
    from qualm.compiler.results.lineage import print_lineage, trace

    tree = trace(Project(), file)
    if as_json:
        print_json(tree)
    else:
        print_lineage(tree)
