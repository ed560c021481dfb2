"""Command group `qualm data`: list, show, add, fetch and check data and models, which DVC stores.

Importing this module loads neither DVC nor pyarrow; each command loads what it needs.
"""

from pathlib import Path
from typing import Annotated

import typer

from qualm.registry.entries import completion
from qualm.registry.entries import sentences as say
from qualm.registry.entries.errors import JsonOption, known_errors, refuse
from qualm.registry.entries.printing import (
    counting,
    facts,
    print_entries,
    print_labelled,
    print_some,
    print_verdict,
    print_wrapped,
    progress_line,
    report,
    row,
)
from qualm.registry.system import atomic
from qualm.registry.text import complain, plain, print_json

app = typer.Typer(
    name="data",
    no_args_is_help=True,
    help="""Data and models of this project: what there is, where it is, adding more, checking it.

Entries lie in registry/data/ and DVC tracks them, so `dvc pull`, `dvc push` and `dvc get` work on them as on anything else. What an
entry should look like stands on its card, registry/cards/NAME.yaml.""",
)


@app.command("ls")
def list_entries(as_json: JsonOption = False) -> None:
    """List entries and cards with size, splits, licence and location.

    here: in the working tree. cache: `dvc checkout` restores it. remote: `dvc pull` brings it. missing: in none of
    these. not added: `qualm data add` brings the files in. generated: made by its adapter. * marks a card whose
    layout was not checked against a release.
    """
    from qualm.registry.entries.entries import entries

    with known_errors():
        rows = [row(e) for e in entries(completion.root())]
    if as_json:
        print_json(rows)
        return
    print_entries(rows)
    if any(line["verified"] is False for line in rows):
        from qualm.registry.entries.card import UNVERIFIED

        print_wrapped(f"* {UNVERIFIED}")
    if any(line["skip_bad"] for line in rows):
        print_wrapped(say.SPLITS_OF_WHOLE.format(meaning=say.IN_PART))


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An entry or a card.", autocompletion=completion.data)],
    as_json: JsonOption = False,
) -> None:
    """Show one entry: card, citation, splits, files."""
    from qualm.registry.entries.entries import find
    from qualm.registry.system.dvc_files import cache_folder, local_remote
    from qualm.registry.system.dvc_objects import listing

    with known_errors():
        root = completion.root()
        entry = find(root, name)
        card = entry.details
        stores = [cache_folder(root), local_remote(root)]
        files = next((f for s in stores if s is not None and entry.md5 and (f := listing(s, entry.md5)) is not None), None)
    if as_json:
        print_json({**row(entry), "card": card.model_dump(mode="json") if card else None, "file_hashes": files})
        return
    from qualm.registry.system.console import Console

    out = Console()
    out.print(f"[bold]{plain(entry.name)}[/]  {plain(card.title) if card else 'no card'}")
    if card:
        out.print(f"\n{plain(card.description)}\n")
    labelled = list(facts(entry))
    for split, expected in (card.splits if card else {}).items():
        n = "" if expected.records is None else f"  {expected.records:,} records" + (" in each file" if expected.files else "")
        labelled.append(("split", f"{split}{n}"))
    for rule in card.layout if card else ():
        need = f"exactly {rule.count:,}" if rule.count else f"at least {rule.at_least:,}" if rule.at_least else "optional"
        labelled.append(("layout", f"{rule.files}  {need}{', ' + rule.about if rule.about else ''}"))
    labelled += [("file", file) for file in sorted(files or {})[:20]]
    if files and len(files) > 20:
        labelled.append(("", say.AND_MORE_LISTED.format(indent="", n=len(files) - 20)))
    print_labelled(out, labelled)
    if card and card.citation:
        out.print(f"\n{plain(card.citation.strip())}", soft_wrap=True)
    if entry.get:
        out.print(say.TO_HAVE_HERE.format(command=plain(entry.get)))


@app.command()
def add(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What to call the entry: registry/data/NAME.", autocompletion=completion.data)
    ],
    source: Annotated[
        str, typer.Option("--from", metavar="PATH|URL@REV", help="A folder, a zip or tar archive, or a git repository at a revision.")
    ],
    card: Annotated[
        str | None, typer.Option(help="The card to check against; the entry's own name if not given.", autocompletion=completion.cards)
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Leave out bad files of a pattern, keep files with bad lines, and accept other counts than the card's. All are listed.",
        ),
    ] = False,
    new_version: Annotated[
        bool, typer.Option("--new-version", help="For your own data that have grown: write the new counts into their card and add them.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check files against their card and let DVC track them.

    All problems are listed at once, and nothing is added if there are any. Other files replace the entry; DVC's
    cache keeps the old version.

    Of a folder or archive, only files that the card names are copied. From git (`--from
    https://host/owner/repo@v1.0`), DVC imports the repository at that revision.
    """
    from qualm.registry.entries.adding import AddError
    from qualm.registry.entries.adding import add as add_entry
    from qualm.registry.entries.card import load_card

    with known_errors(), progress_line(not as_json) as progress:
        chosen = load_card(card or name)
        try:
            added = add_entry(completion.root(), name, source, chosen, progress, skip_bad, new_version)
        except AddError as error:
            refuse(name, source, error, as_json)
    if as_json:
        print_json(
            {
                "outcome": added.outcome,
                "previous": added.previous,
                **row(added.entry),
                "splits": added.inspection.splits,
                "skipped": added.inspection.skipped,
                "left_out": added.inspection.left_out,
                "notes": added.inspection.notes,
            }
        )
    else:
        report(added)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="What to call the card: registry/cards/NAME.yaml.")],
    source: Annotated[Path, typer.Option("--from", metavar="FOLDER", help="The folder with the data.")],
    adapter: Annotated[
        str | None,
        typer.Option(help="image_table, coco_folder or vlmevalkit_tsv; by the files if not given.", autocompletion=completion.adapters),
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("-O", metavar="NAME=VALUE", help="A parameter of the adapter, in YAML: -O 'choices=[a, b]'.")
    ] = None,
    title: Annotated[str, typer.Option(help="Its title.")] = "",
    licence: Annotated[str, typer.Option(help="Its licence.")] = "",
    url: Annotated[str, typer.Option("--source", help="The URL of its source.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: use the proposals and -O.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing card.")] = False,
) -> None:
    """Write a card for your own data, after questions about its files.

    It reads CSV, TSV, JSON, JSON Lines, Parquet and saved `datasets`, COCO-style folders, and tables of VLMEvalKit.
    In a terminal it asks questions; otherwise, or with --yes, it uses its proposals and `-O`. Nothing is written
    unless the first samples can be read.
    """
    from qualm.registry.entries.card import new_cards_folder
    from qualm.registry.entries.infer_columns import NewCardError
    from qualm.registry.entries.new_card_dialogue import new_card

    with known_errors():
        try:
            about = {"title": title, "licence": licence, "source": url}
            new_card(name, source, new_cards_folder(), adapter, assignments or [], about, yes, force)
        except NewCardError as error:
            complain(str(error))
            raise typer.Exit(2) from None


@app.command()
def diff(
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="NAME, NAME@REVISION, NAME@DIGEST, or the path of a dataset in the same forms.",
            autocompletion=completion.entries,
        ),
    ],
    new: Annotated[str | None, typer.Argument(help="The second version; by default the working tree.", show_default=False)] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("-O", metavar="NAME=VALUE", help="A parameter of the adapter, in YAML: -O split=train.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 1 if anything differs.")] = False,
) -> None:
    """Compare two versions of data, by files and samples.

    `qualm data diff pope@v1.0` compares a git tag with the working tree, `qualm data diff pope@1a2b3c4d5e
    pope@HEAD` two recorded versions, `qualm data diff results/mine/data/scenes@HEAD~3` a dataset that a stage made.
    Old versions are read from DVC's cache.
    """
    from qualm.registry.adapters import AdapterError
    from qualm.registry.entries.differences import compare
    from qualm.registry.entries.entries import find
    from qualm.registry.entries.printing import print_difference
    from qualm.registry.entries.versions import find_version
    from qualm.registry.plugins.registry import PluginError

    with known_errors(), counting(not as_json) as progress:
        root = completion.root()
        if new is None and "@" not in old:
            if not Path(old).exists():
                find(root, old)
            complain(say.NAME_A_VERSION.format(name=old))
            raise typer.Exit(2)
        versions = find_version(root, old), find_version(root, new if new is not None else old.rpartition("@")[0])
        try:
            comparison = compare(*versions, option or [], atomic.scratch_folder(root / ".qualm" / "staging-diff"), progress)
        except (PluginError, AdapterError) as error:
            complain(str(error))
            raise typer.Exit(2) from None
    if as_json:
        samples = comparison.samples.as_json() if comparison.samples is not None else None
        print_json(
            {"old": versions[0].md5, "new": versions[1].md5, "files": comparison.files.as_json(), "samples": samples, "why": comparison.why}
        )
    else:
        print_difference(*versions, comparison)
    if exit_code and comparison.files:
        raise typer.Exit(1)


@app.command()
def check(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An entry or a card.", autocompletion=completion.data)],
    source: Annotated[Path | None, typer.Option("--from", metavar="FOLDER", help="Files that were not added yet.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("-O", metavar="NAME=VALUE", help="A parameter of the adapter, in YAML: -O split=train.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read every record and list all problems, with file and line.

    Problems are missing images, unknown keys, wrong types, duplicate ids, and questions without a reference answer
    that are not declared unanswerable. Notes count images that are transparent or have several frames. Exit code 1
    if there are problems; `skip_bad: true` in a spec leaves bad records out.
    """
    from qualm.registry.entries.checking import check_records
    from qualm.registry.entries.entries import find
    from qualm.registry.plugins.options import parse_options
    from qualm.registry.plugins.registry import PluginError, get

    with known_errors():
        entry = find(completion.root(), name)
        card = entry.details
        if card is None:
            complain(say.NO_SUCH_CARD.format(name=name, card=entry.card))
            raise typer.Exit(2)
        if card.adapter and source is None and card.layout and not entry.path.exists():
            complain(say.FILES_NOT_HERE.format(name=name, how=entry.get_advice))
            raise typer.Exit(2)
        try:
            args = parse_options(get("datasets", card.adapter), assignments or []) if card.adapter else {}
        except PluginError as error:
            complain(str(error))
            raise typer.Exit(2) from None
        with counting(not as_json) as tell:
            report = check_records((source or entry.path) if card.layout else None, card, args, lambda n: tell(name, n))
    if as_json:
        print_json({"splits": report.splits, "images": report.images, "problems": report.problems, "notes": report.notes})
    else:
        counts = ", ".join(f"{split} {n:,}" for split, n in report.splits.items())
        n_samples, n_problems = report.splits.total(), len(report.problems)
        print(say.CHECKED_RECORDS.format(name=name, samples=n_samples, splits=counts or "none", images=report.images, problems=n_problems))
        print_some(report.problems, "  ")
        print_some([f"note: {note}" for note in report.notes], "  ")
    if report.problems:
        raise typer.Exit(1)


@app.command()
def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Entries, and results/SPEC; by default all that exist here.",
            show_default=False,
            autocompletion=completion.entries,
        ),
    ] = None,
    aside: Annotated[
        bool,
        typer.Option("--set-aside", help="Move damaged results and their cache objects to .qualm/damaged; `qualm run` makes them again."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare entries, results and cached objects with their hashes.

    It lists damaged, missing and extra files of entries, and damaged results, and counts results that are not here.
    Exit code 1 if anything is damaged, missing or extra.
    """
    from qualm.registry.entries.checking import check_entries, check_results

    with known_errors():
        root = completion.root()
        verdicts = check_entries(root, names) | check_results(root, names, aside)
    if as_json:
        print_json({n: {"good": v.good, **vars(v)} for n, v in verdicts.items()})
    else:
        for name, verdict in verdicts.items():
            print_verdict(name, verdict, aside)
        if not verdicts:
            print(say.NOTHING_TO_VERIFY)
    if not all(v.good for v in verdicts.values()):
        raise typer.Exit(1)
