"""Report known errors of `qualm data` on standard error."""

from __future__ import annotations

import shlex
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from qualm.registry.entries import sentences as say
from qualm.registry.text import complain, count, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qualm.registry.entries.adding import AddError

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def refuse(name: str, source: str, error: AddError, as_json: bool) -> NoReturn:
    """Print why nothing was added, with advice or as JSON; exit with status 1."""
    n, excusable = len(error.problems), error.excusable
    if as_json:
        changes = {str(change.what): {"before": change.before, "now": change.now} for change in error.recounts}
        print_json({"outcome": "failed", "name": name, "problems": list(error.problems), "excusable": excusable, "recounts": changes})
    else:
        complain(say.NOTHING_ADDED.format(problems=count(n, "problem")), *(f"  {p}" for p in error.problems))
        if error.recounts:
            command = f"qualm data add {name} --from {shlex.quote(source)} --new-version"
            print(say.DATA_CHANGED.format(command=command), file=sys.stderr)
        elif excusable:
            which = "" if excusable == n else say.SOME_EXCUSABLE.format(excusable=excusable, n=n)
            print(say.ON_PURPOSE.format(which=which), file=sys.stderr)
    raise typer.Exit(1)


@contextmanager
def known_errors() -> Iterator[None]:
    """Print known errors of the block in a line; exit with 2, or 130 if interrupted."""
    from qualm.registry.entries.card import CardError
    from qualm.registry.entries.entries import EntryError
    from qualm.registry.system.dvc_files import DvcStateError

    try:
        yield
    except (CardError, EntryError, DvcStateError) as error:
        complain(str(error))
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        complain(say.INTERRUPTED)
        raise typer.Exit(130) from None
