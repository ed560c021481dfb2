"""The output of `qualm data`: lines, table rows, progress."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.registry.entries import sentences as say
from qualm.registry.system.git import output
from qualm.registry.text import count, format_size, plain, quoted

if TYPE_CHECKING:
    from rich.progress import TaskID

    from qualm.registry.entries.adding import Added, Progress
    from qualm.registry.entries.differences import VersionDifferences
    from qualm.registry.entries.entries import Entry, Verdict
    from qualm.registry.entries.versions import Version
    from qualm.registry.system.console import Console

MAX_LINES = 10
"""Ids, files or problems that are printed; `--json` prints all."""

WIDE = 130
"""Least terminal columns for a table with splits and licences; below it they follow the table."""
NARROW = 76
"""Least terminal columns for a table with versions and numbers of files."""


def row(entry: Entry) -> dict[str, Any]:
    card = entry.sound_card
    return {
        "name": entry.name,
        "kind": card.kind if card else None,
        "version": entry.version,
        "md5": entry.md5,
        "bytes": entry.size,
        "files": entry.nfiles,
        "where": entry.where,
        "splits": {name: split.records for name, split in card.splits.items()} if card else {},
        "licence": card.licence if card else None,
        "verified": card.verified if card else None,
        "card_name": entry.card,
        "origin": entry.origin,
        "skip_bad": entry.skipped,
        "get": entry.get or None,
    }


def facts(entry: Entry) -> Iterator[tuple[str, str]]:
    card = entry.details
    if card:
        yield "kind", say.READ_BY.format(kind=card.kind, adapter=card.adapter) if card.adapter else card.kind
        if card.missing:
            yield "not yet", say.NOTHING_READS_IT.format(what=card.missing)
        yield "source", card.source
        yield "licence", card.licence
        if card.fetch:
            hub = [f"hub:{card.fetch.repo} at {card.fetch.revision or 'main'}"] if card.fetch.repo else []
            asks = (say.ASKS_TERMS if card.fetch.terms else "") + ("" if card.fetch.verified else say.ADDRESSES_NOT_TRIED)
            yield "fetch", ", ".join([*hub, *(address.url for address in card.fetch.urls.values())]) + asks
        if card.scoring:
            yield "format", card.formats
            yield "scoring", " ".join(card.scoring.split())
        yield "checked", say.CHECKED_AGAINST_RELEASE if card.verified else card.caveat
    yield "version", f"{entry.md5} ({format_size(entry.size)}, {entry.nfiles or 1:,} files)" if entry.md5 else "-"
    if entry.origin:
        yield "imported", entry.origin
    yield "where", entry.where
    if entry.skipped:
        yield "in part", say.NUMBERS_OF_WHOLE.format(meaning=say.IN_PART)


def print_entries(rows: list[dict[str, Any]]) -> None:
    """Print rows of entries as a table, in a narrow terminal with fewer columns."""
    from rich.table import Table
    from rich.text import Text

    from qualm.registry.system.console import Console
    from qualm.registry.system.grids import Grid

    console = Console()
    wide = console.width >= WIDE
    compact = ("name", "kind", "size", "where") if console.width < NARROW else ("name", "kind", "version", "size", "files", "where")
    columns = (*compact, "splits", "licence") if wide else compact
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in ("size", "files") else "left", no_wrap=column not in ("splits", "licence"))
    grid = Grid([(column, "right" if column in ("size", "files") else "left") for column in compact])
    colours = {"here": "green", "missing": "red", "not added": "dim", "generated": "dim"}
    below = []
    for line in rows:
        where = line["where"] + (", in part" if line["skip_bad"] else "")
        splits = ", ".join(f"{name} {n:,}" if n else name for name, n in line["splits"].items())
        licence = line["licence"] or "?"
        cells = {
            "name": plain(line["name"]) + ("" if line["verified"] or line["verified"] is None else "*"),
            "kind": line["kind"] or "?",
            "version": line["version"] or "-",
            "size": format_size(line["bytes"]),
            "files": "-" if line["files"] is None else f"{line['files']:,}",
            "where": f"[{colours.get(line['where'], 'yellow')}]{where}[/]",
            "splits": plain(splits),
            "licence": plain(licence),
        }
        table.add_row(*(cells[column] for column in columns))
        grid.add(*(Text.from_markup(cells[column]) for column in compact))
        below.append((line["name"], f"{splits}; {licence}" if splits else licence))
    if wide:
        console.print(table)
    else:
        grid.print(console)
        console.print(say.SPLITS_AND_LICENCE)
        print_labelled(console, below)


def print_labelled(console: Console, lines: list[tuple[str, str]]) -> None:
    """Print (label, text) lines in two columns, or below each other if too wide."""
    from rich.padding import Padding
    from rich.table import Table

    if max((len(label) for label, _ in lines), default=0) > console.width // 2:
        for label, value in lines:
            console.print(f"  [dim]{plain(label)}[/]", overflow="fold")
            console.print(Padding(plain(value), (0, 0, 0, 4)))
        return
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in lines:
        table.add_row(plain(label), plain(value))
    console.print(table)


def print_wrapped(text: str) -> None:
    """Print a text to standard output, wrapped at the terminal's width."""
    from rich.text import Text

    from qualm.registry.system.console import Console

    Console().print(Text(text))


def print_some(lines: Sequence[object], indent: str) -> None:
    """Print up to MAX_LINES lines, indented, then how many more there are."""
    for line in lines[:MAX_LINES]:
        print(f"{indent}{line}")
    if len(lines) > MAX_LINES:
        print(say.AND_MORE_LISTED.format(indent=indent, n=len(lines) - MAX_LINES))


def report(added: Added) -> None:
    entry, inspection = added.entry, added.inspection
    outcome = {"added": say.ADDED, "replaced": say.REPLACED, "unchanged": say.UNCHANGED}[added.outcome]
    previous, files, size = (added.previous or "")[:10], len(inspection.files), format_size(inspection.size)
    print(outcome.format(name=entry.name, previous=previous, version=entry.version, files=files, size=size))
    for split, records in sorted(inspection.splits.items()):
        counts = f"{records[0]:,} records" if len(set(records)) == 1 else f"{min(records):,} to {max(records):,} records"
        print(f"  {split}: {counts} in {'each of ' if len(records) > 1 else ''}{count(len(records), 'file')}")
    if entry.details is not None and entry.details.caveat:
        print(f"  {entry.details.caveat}")
    if inspection.skipped:
        print(say.SKIP_BAD_ACCEPTED.format(n=len(inspection.skipped)))
        print_some(inspection.skipped, "    ")
    for note in inspection.notes:
        print(f"  {note}")
    if inspection.left_out:
        print(say.NOT_ON_CARD.format(n=len(inspection.left_out), first=inspection.left_out[0]))
    if added.outcome != "unchanged":
        print("next:", *next_commands(added), sep="\n  ")


def next_commands(added: Added) -> list[str]:
    """Return the commands to run after adding an entry, in order."""
    from qualm.registry.entries.new_card import options_for
    from qualm.registry.system.dvc_files import has_default_remote

    entry, old = added.entry, (added.previous or "")[:10]
    commands = [commit_command(entry)]
    if (options := options_for(entry)) is not None:
        commands.append(say.READS_RECORDS.format(name=entry.name, options=options))
    if added.outcome == "replaced":
        commands.append(say.SHOWS_CHANGES.format(name=entry.name, version=old, options=options or ""))
    if not entry.origin and has_default_remote(entry.root):
        commands.append(say.PUSHES.format(file=shlex.quote(_record(entry))))
    return commands


def commit_command(entry: Entry) -> str:
    """Return `git add ... && git commit` of an entry's .dvc file, .gitignore and changed card."""
    files = [_record(entry), _from_here(entry.root / "registry" / "data" / ".gitignore"), *_new_card(entry)]
    return f"git add {shlex.join(files)} && git commit -m {shlex.quote(f'Data: {entry.name}')}"


def _record(entry: Entry) -> str:
    return _from_here(entry.root / "registry" / "data" / f"{entry.name}.dvc")


def _new_card(entry: Entry) -> list[str]:
    """Return [path of the entry's card] if git lacks its content; else []."""
    from qualm.registry.entries import card as cards

    path = cards.folders()[-1] / f"{entry.card}.yaml"
    if not path.is_relative_to(entry.root.resolve()) or not path.is_file():
        return []
    return [_from_here(path)] if output(entry.root, "status", "--porcelain", "--", str(path)) else []


def _from_here(path: Path) -> str:
    return os.path.relpath(path.resolve(), Path.cwd().resolve())


@contextmanager
def progress_line(visible: bool) -> Iterator[Progress]:
    """Show a progress bar if `visible`; yield the function that is told files and bytes done."""
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    from qualm.registry.system.console import Console

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True, disable=not (visible and console.is_terminal)) as bar:
        tasks: dict[str, TaskID] = {}
        files: dict[str, int] = {}
        latest = ""

        def tell(what: str, file: str, size: int, total: int) -> None:
            nonlocal latest
            if what not in tasks:
                for task in tasks.values():
                    bar.update(task, visible=False)
                tasks[what], files[what], latest = bar.add_task(what, total=total or None), 0, ""
            files[what] += file != latest
            latest = file
            bar.update(tasks[what], advance=size, description=f"{what} {plain(file)[-40:]} ({files[what]:,} files)")

        yield tell


@contextmanager
def counting(visible: bool) -> Iterator[Callable[[str, int], None]]:
    """Show a status line if `visible`; yield the function to call with (name, count)."""
    from rich.status import Status

    from qualm.registry.system.console import Console

    console = Console(stderr=True)
    with Status("comparing files", console=console) if visible and console.is_terminal else nullcontext() as status:

        def tell(what: str, n: int) -> None:
            if status is not None:
                status.update(f"reading {plain(what)[:60]}: {n:,} samples")

        yield tell


def print_difference(old: Version, new: Version, comparison: VersionDifferences) -> None:
    """Print what changed between two versions: counts, then names of each change."""
    print(f"{old.label} ({old.md5[:10]}) -> {new.label} ({new.md5[:10]})")
    for what, changes in (("files", comparison.files), ("samples", comparison.samples)):
        if changes is None:
            print(say.NOT_COMPARED.format(what=what, why=comparison.why))
            continue
        counts = say.COUNTS_OF_CHANGES.format(added=len(changes.added), removed=len(changes.removed), changed=len(changes.changed))
        remaining = comparison.why or f"{changes.same:,} the same"
        print(f"  {what}: {counts}, {remaining}" if changes or not comparison.why else f"  {what}: {comparison.why}")
        by_field = changes.by_field()
        if by_field:
            print(f"    changed: {', '.join(f'{name} of {n:,}' for name, n in by_field.items())}")
        named = [("+", n, "") for n in changes.added] + [("-", n, "") for n in changes.removed]
        named += [("~", n, ", ".join(of)) for n, of in changes.changed.items()]
        for sign in "+-~":
            of = [(n, why) for s, n, why in named if s == sign]
            for name, why in of[:MAX_LINES]:
                print(f"    {sign} {quoted(name)}" + (f"  ({why})" if why else ""))
            if len(of) > MAX_LINES:
                print(say.AND_MORE_NAMED.format(sign=sign, n=len(of) - MAX_LINES))


def print_verdict(name: str, verdict: Verdict, aside: bool = False) -> None:
    """Print whether an entry or a spec's results are as recorded, what is not, and the remedy."""
    print((say.AS_RECORDED if verdict.good else say.NOT_AS_RECORDED).format(name=name, n=verdict.checked))
    for what in ("damaged", "missing", "extra"):
        for file in getattr(verdict, what):
            print(f"  {what}: {file!r}" if not file.isprintable() else f"  {what}: {file}")
    for problem in verdict.problems:
        print(f"  {problem}")
    spec = name.removeprefix("results/")
    if verdict.absent:
        print(say.NOT_HERE.format(n=verdict.absent, spec=spec))
    if name.startswith("results/") and not verdict.good:
        print((say.RESTORE_SET_ASIDE if aside else say.RESTORE_RESULTS).format(name=name, spec=spec))
    elif verdict.damaged or verdict.missing or verdict.extra:
        print(say.RESTORE_ENTRY.format(name=name))
