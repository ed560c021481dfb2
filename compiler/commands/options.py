"""Arguments that several commands take, with the same words of help."""

from __future__ import annotations

from typing import Annotated

import typer

SPEC_HELP = "Name of a spec in specs/, or a path; the default spec of params.yaml if left out."
SpecArgument = Annotated[str | None, typer.Argument(help=SPEC_HELP, show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
