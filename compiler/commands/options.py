"""Arguments and options that several commands share."""

from typing import Annotated

import typer

from qualm.compiler.commands import completion
from qualm.registry.entries.errors import JsonOption as JsonOption

SpecArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SPEC",
        help="A spec's name or path; by default the spec that params.yaml names.",
        show_default=False,
        autocompletion=completion.specs,
    ),
]
SpecsOrDefaultArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SPEC]...",
        help="Specs' names or paths; by default the spec that params.yaml names.",
        show_default=False,
        autocompletion=completion.specs,
    ),
]
SpecsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="SPEC", help="Specs' names or paths; all by default.", show_default=False, autocompletion=completion.specs),
]
ModelsOption = Annotated[list[str] | None, typer.Option("--model", "-m", help="Only these models.", autocompletion=completion.models)]
DatasetsOption = Annotated[
    list[str] | None, typer.Option("--dataset", "-d", help="Only these datasets.", autocompletion=completion.datasets)
]
MetricsOption = Annotated[list[str] | None, typer.Option("--metric", help="Only these metrics.", autocompletion=completion.metrics)]
