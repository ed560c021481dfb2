"""`qualm data fetch`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qualm.registry.commands import completion
from qualm.registry.commands.errors import JsonOption, known_errors, refuse
from qualm.registry.commands.printing import MAX_LINES, progress_line, report, row
from qualm.registry.text import complain, human, print_json, quoted

if TYPE_CHECKING:
    from qualm.registry.entries.card import Card
    from qualm.registry.entries.fetching.fetch import FetchPlan


def fetch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What to call the entry: registry/data/NAME.", autocompletion=completion.data)
    ],
    card: Annotated[
        str | None,
        typer.Option(help="The card that says where the files are; the entry's own name if not given.", autocompletion=completion.cards),
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="Commit, branch or tag of the hub, instead of the pinned one; its commit becomes the pin."),
    ] = None,
    accept_licence: Annotated[bool, typer.Option("--accept-licence", help="Accept the conditions of the card's licence.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="List the files and their sizes; fetch nothing.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Fetch an entry that was added already.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Download official files from their card's source, verify checksums, and add them.

    The source is the Hugging Face hub at a pinned commit (HF_ENDPOINT and HF_TOKEN work as usual), or plain https
    addresses. An interrupted download is resumed. Checksums come from the card, registry/fetch.lock and the hub; a file
    without a checksum gets one in registry/fetch.lock, which should be committed. Until everything is verified, the
    files are in .qualm/fetched/NAME.
    """
    from qualm.registry.entries.adding import AddError
    from qualm.registry.entries.card import load_card
    from qualm.registry.entries.fetching import fetch as fetching
    from qualm.registry.entries.fetching.download import FetchError

    with known_errors():
        root, chosen = completion.root(), load_card(card or name)
        if fetching.is_added(root, name) and not (again or dry_run):
            complain(f"{name} is added already; `qualm data show {name}` says where its bytes are, --again fetches it anew")
            raise typer.Exit(2)
        try:
            plan = fetching.plan(root, name, chosen, revision)
            if not as_json:
                _print(plan)
            if dry_run:
                if as_json:
                    print_json(_as_json(plan))
                return
            _require_acceptance(name, plan.card, accept_licence)
            with progress_line(not as_json) as progress:
                fetched = fetching.fetch(root, plan, progress)
        except FetchError as error:
            complain(str(error))
            raise typer.Exit(1) from None
        except fetching.IncompleteError as error:
            if error.also:
                complain(f"what this does not fetch: {error.also}")
            complain(f"what came is in {error.folder}; complete it there, then `qualm data add {name} --from {error.folder}`")
            refuse(name, str(error.folder), error.error, as_json)
        except AddError as error:
            refuse(name, name, error, as_json)
    if as_json:
        print_json({"outcome": fetched.added.outcome, **_as_json(fetched.plan), "recorded": fetched.recorded, **row(fetched.added.entry)})
        return
    report(fetched.added)
    if fetched.recorded:
        print(f"{fetched.recorded:,} checksums are new in registry/fetch.lock; commit it, and everyone gets the same files")


def _require_acceptance(name: str, card: Card, accepted: bool) -> None:
    """Exit with status 2 unless the licence was accepted, by the option or on the terminal."""
    terms = card.fetch.terms if card.fetch else ""
    if not terms or accepted:
        return
    print(f"{name}: {terms}\n{card.source}")
    if not (sys.stdin.isatty() and typer.confirm("Do you accept this?")):
        complain(f"{name}: nothing was fetched; say --accept-licence if you accept its licence ({card.licence})")
        raise typer.Exit(2)


def _print(plan: FetchPlan) -> None:
    at = f" at {plan.revision}" if plan.revision else ""
    print(f"{plan.name}: {len(plan.files):,} files, {human(plan.size)}, from {plan.source}{at}; licence: {plan.card.licence}")
    if plan.card.fetch and plan.card.fetch.unpinned:
        print(f"{plan.card.fetch.unpinned}; this one is pinned in registry/fetch.lock")
    sizes = [f"{human(file.size):>10}  {quoted(file.name)}" for file in plan.files]
    print(*sizes[:MAX_LINES], *([f"and {len(sizes) - MAX_LINES:,} more"] if len(sizes) > MAX_LINES else []), sep="\n")
    if plan.unpinned:
        print(f"no checksum is known of {plan.unpinned:,} of them before they come; what comes is recorded in registry/fetch.lock")


def _as_json(plan: FetchPlan) -> dict[str, Any]:
    files = {file.name: {"url": file.url, "bytes": file.size, "sha256": dict(file.sha256)} for file in plan.files}
    return {"source": plan.source, "revision": plan.revision or None, "licence": plan.card.licence, "files_fetched": files}
