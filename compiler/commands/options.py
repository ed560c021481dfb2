"""Arguments that several commands take, with the same words of help."""

from typing import Annotated

import typer

from qualm.compiler.terminal import completion

SPEC_HELP = "Name of a spec in specs/, or a path; the default spec of params.yaml if left out."
SpecArgument = Annotated[str | None, typer.Argument(metavar="SPEC", help=SPEC_HELP, show_default=False, autocompletion=completion.specs)]
SpecOption = Annotated[str | None, typer.Option("--spec", help=SPEC_HELP, autocompletion=completion.specs, hidden=True)]
"""The same as an option, which commands took that have other arguments."""
ModelsOption = Annotated[list[str] | None, typer.Option("--model", "-m", help="Only these models.", autocompletion=completion.models)]
DatasetsOption = Annotated[
    list[str] | None, typer.Option("--dataset", "-d", help="Only these data sets.", autocompletion=completion.datasets)
]
MetricsOption = Annotated[list[str] | None, typer.Option("--metric", help="Only these metrics.", autocompletion=completion.metrics)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
