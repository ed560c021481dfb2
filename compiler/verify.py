"""`qualm verify`: which questions of which spec, whose decisions, and where they go."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.errors import nearest
from compiler.plan import Plan, PlannedStage, leaves
from compiler.project import Project, ProjectError
from compiler.resolve import Resolved
from compiler.serving import own_name, until_stopped

if TYPE_CHECKING:
    from runners.verifying.pool import Pool
    from runners.verifying.session import Session


@dataclass(frozen=True)
class Wanted:
    """What the reviewer asked for on the command line."""

    pairs: str | None = None
    reviewer: str | None = None
    category: str | None = None
    sample: int | None = None
    skipped: bool = False
    page: bool = False
    port: int | None = None
    browse: bool = True


@dataclass(frozen=True)
class Target:
    """A pair set of a spec, and the entry that its decisions go to."""

    spec: str
    pairs: str
    entry: str
    curated: bool
    """Whether the spec names the entry already."""
    recipes: tuple[PlannedStage, ...]
    sources: tuple[Path, ...]


def verify(project: Project, spec: str | None, wanted: Wanted) -> None:
    """Review until the reviewer stops, then put what they decided into the registry.

    Raises:
        ProjectError: there is nothing to review, or decisions cannot be kept; what to do stands in the message.
    """
    from registry.adding import AddError
    from registry.entries import EntryError
    from runners.curation import CurationError
    from runners.pages import PageError
    from runners.verifying.journal import Journal, JournalError, publish
    from runners.verifying.pool import PoolError
    from runners.verifying.session import Session
    from runners.verifying.terminal import NoTerminal

    target = find_target(project.resolve(spec), project.plan(spec), wanted.pairs, project.root)
    try:
        publish(project.root, target.entry)  # what a killed session left
        pool = _pool(project, target, wanted)
        journal = Journal(project.root, target.entry, wanted.reviewer or own_name())
        try:
            _review(Session(pool, journal, wanted.skipped), f"{target.pairs} ({target.spec})", wanted)
        finally:
            journal.close()
        _finish(project.root, target)
    except AddError as error:
        left = f"decisions are safe in .qualm/reviews/{target.entry}; the next `qualm verify` publishes them"
        raise ProjectError(f"{error}\n{left}") from error
    except (PoolError, JournalError, PageError, CurationError, EntryError, NoTerminal) as error:
        raise ProjectError(str(error)) from error


def merge(project: Project, spec: str | None, pairs: str | None, tables: list[Path]) -> str:
    """Take other reviewers' tables in; gives the line to print.

    Raises:
        ProjectError: a table is not one, or contradicts itself.
    """
    from registry.adding import AddError
    from registry.entries import EntryError
    from runners.curation import CurationError, read_decisions
    from runners.verifying.journal import JournalError, publish

    target = find_target(project.resolve(spec), project.plan(spec), pairs, project.root)
    try:
        for table in tables:
            if not table.is_file():
                raise ProjectError(f"{table}: no such file; --merge takes a decisions.csv of another reviewer")
        added = publish(project.root, target.entry, [d for table in tables for d in read_decisions(table)])
    except (AddError, JournalError, CurationError, EntryError) as error:
        raise ProjectError(str(error)) from error
    return f"registry/data/{target.entry}: {'nothing new' if added is None else f'{added.outcome}, version {added.entry.version}'}"


def find_target(resolved: Resolved, plan: Plan, pairs: str | None, root: Path) -> Target:
    """The pair set that is asked for, or the only one.

    Raises:
        ProjectError: the spec has none, has several, or not that one.
    """
    name = resolved.spec.name
    known = list(resolved.spec.pairs)
    if not known:
        raise ProjectError(f"{name} has no pair sets to verify; they stand under `pairs:` (docs/pairs.md)")
    if pairs is None and len(known) > 1:
        raise ProjectError(f"{name} has several pair sets; say which with --set: {', '.join(known)}")
    chosen = pairs or known[0]
    if chosen not in known:
        hint = nearest(chosen, known)
        raise ProjectError(f"{name} has no pair set '{chosen}'" + (f"; {hint}" if hint else f"; there are: {', '.join(known)}"))
    curated = resolved.spec.pairs[chosen].curated
    entry = curated or re.sub(r"[^a-z0-9_-]+", "-", f"{name}-{chosen}-reviews".lower())[:64]
    stage = next(s for s in plan.stages if s.kind == "assemble" and s.params["dataset"] == chosen)
    folders = set(leaves(stage.inputs["recipes"]))
    recipes = tuple(s for s in plan.stages if s.kind == "pair" and set(leaves(s.outputs)) & folders)
    sources = tuple(root / p for p in leaves(stage.inputs["datasets"]))
    return Target(name, chosen, entry, curated is not None, recipes, sources)


def _pool(project: Project, target: Target, wanted: Wanted) -> Pool:
    from runners.verifying.pool import read_pool

    folders = {s.name: project.root / next(leaves(s.outputs)) for s in target.recipes}
    if missing := [n for n, folder in folders.items() if not (folder / "samples.parquet").is_file()]:
        command = " ".join(f"specs/{target.spec}/dvc.yaml:{n}" for n in missing)
        raise ProjectError(f"the pairs of '{target.pairs}' are not made yet; make them: dvc repro --pull {command}")
    pool = read_pool(list(folders.values()), target.sources)
    return pool.only(wanted.category, wanted.sample, 0)


def _review(session: Session, title: str, wanted: Wanted) -> None:
    if not wanted.page:
        from runners.verifying.terminal import run

        run(session)
        return
    from runners.verifying.page import serve

    until_stopped(
        lambda: serve(session, title, wanted.port, wanted.browse),
        lambda url: f"{session.journal.reviewer} reviews {title} at {url}\nCtrl-C here ends the review and publishes it",
    )


def _finish(root: Path, target: Target) -> None:
    from runners.verifying.journal import publish

    added = publish(root, target.entry)
    if added is None:
        print(f"registry/data/{target.entry}: nothing new")
        return
    print(f"registry/data/{target.entry}: {added.outcome}, version {added.entry.version}")
    print(f"next: git add registry/data/{target.entry}.dvc registry/data/.gitignore, commit")
    if not target.curated:
        print(f"to filter the test split by it, write `curated: {target.entry}` under pairs.{target.pairs} of the spec")
