"""`qualm verify`: review questions of a spec, and publish the decisions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from qualm.compiler.plan.emit import how_to_make
from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.project.checkout import Project
from qualm.compiler.results.integrity import report_changed
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.compiler.spec.resolved import Resolved
from qualm.compiler.viewing.serving import OPENING, login_name, until_stopped
from qualm.registry.parameters import nested_paths
from qualm.runners.data.splits import SplitRule

if TYPE_CHECKING:
    from qualm.registry.entries.adding import Added
    from qualm.runners.review.pool import Pool
    from qualm.runners.review.session import ReviewSession


@dataclass(frozen=True)
class ReviewRequest:
    name: str | None = None
    reviewer: str | None = None
    category: str | None = None
    sample: int | None = None
    skipped: bool = False
    page: bool = False
    port: int | None = None
    browse: bool = True


@dataclass(frozen=True)
class ReviewTarget:
    """Dataset or pair set to review, and the registry entry that stores the decisions."""

    spec: str
    section: str
    name: str
    entry: str
    curated: bool
    """True if the spec names the entry already."""
    makers: tuple[PlannedStage, ...]
    """Stages whose outputs are reviewed: the recipes of a pair set, or the dataset's own."""
    sources: tuple[Path, ...] = ()
    rule: SplitRule = field(default_factory=SplitRule)
    subsets: Mapping[str, str] = field(default_factory=dict)


def verify(project: Project, spec: str | None, request: ReviewRequest) -> None:
    """Let a person review questions until they stop, then publish the decisions.

    Raises:
        ProjectError: there is nothing to review, or the decisions cannot be saved or published.
    """
    from qualm.registry.entries.adding import AddError
    from qualm.registry.entries.entries import EntryError
    from qualm.runners.data.curation import CurationError
    from qualm.runners.review.journal import JournalError, ReviewJournal, publish
    from qualm.runners.review.pages import PageError
    from qualm.runners.review.pool import PoolError
    from qualm.runners.review.session import ReviewSession
    from qualm.runners.review.terminal import NoTerminalError

    resolved = project.resolve(spec)
    target = find_target(resolved, project.plan_of(resolved), request.name, project.root)
    try:
        publish(project.root, target.entry)  # decisions of a killed session
        pool = _pool(project, target, request)
        journal = ReviewJournal(project.root, target.entry, request.reviewer or login_name())
        try:
            _review(ReviewSession(pool, journal, request.skipped), f"{target.name} ({target.spec})", request, project.root)
        finally:
            journal.close()
        _finish(project.root, target)
    except AddError as error:
        raise ProjectError(
            f"{error}\ndecisions are safe in .qualm/reviews/{target.entry}; the next `qualm verify {target.spec} {target.name}` publishes "
            "them"
        ) from error
    except (PoolError, JournalError, PageError, CurationError, EntryError, NoTerminalError) as error:
        raise ProjectError(str(error)) from error


def merge(project: Project, spec: str | None, name: str | None, tables: list[Path]) -> str:
    """Publish other reviewers' tables of decisions; return a message on the outcome."""
    from qualm.registry.entries.adding import AddError
    from qualm.registry.entries.entries import EntryError
    from qualm.runners.data.curation import CurationError, read_decisions
    from qualm.runners.review.journal import JournalError, publish

    resolved = project.resolve(spec)
    target = find_target(resolved, project.plan_of(resolved), name, project.root)
    try:
        for table in tables:
            if not table.is_file():
                raise ProjectError(f"{table}: no such file; --merge takes a decisions.csv of another reviewer")
        added = publish(project.root, target.entry, [d for table in tables for d in read_decisions(table)])
    except (AddError, JournalError, CurationError, EntryError) as error:
        raise ProjectError(str(error)) from error
    return _outcome_message(target.entry, added)


def find_target(resolved: Resolved, plan: Plan, name: str | None, root: Path) -> ReviewTarget:
    """Return what to review: `name`, or the only pair set, or without pairs the only dataset.

    Raises:
        ProjectError: no name is given and the spec has several, or it has none or not that one.
    """
    spec, datasets = resolved.spec, {d.label: d for d in resolved.datasets}
    names = [*spec.pairs, *datasets]
    if name is None:
        likely = list(spec.pairs) or list(datasets)
        if len(likely) != 1:
            raise ProjectError(
                f"{spec.name} has several datasets; say which: {', '.join(names)}"
                if names
                else f"{spec.name} has no dataset to verify; add one under `datasets:`"
            )
        name = likely[0]
    if name not in names:
        raise ProjectError(f"{spec.name} has no dataset '{name}'; {nearest(name, names)}")
    default_entry = re.sub(r"[^a-z0-9_-]+", "-", f"{spec.name}-{name}-reviews".lower())[:64]
    if name in datasets:
        d = datasets[name]
        named_entry = spec.datasets[name.partition("@")[0]].curated
        makers, entry = (plan.makers[name],), named_entry or default_entry
        return ReviewTarget(spec.name, "datasets", name, entry, named_entry is not None, makers, (), SplitRule(d.splits), d.subsets)
    named_entry = spec.pairs[name].curated
    stage = plan.makers[name]
    folders = set(nested_paths(stage.inputs["recipes"]))
    recipes = tuple(s for s in plan.writers("pairs") if s.outputs["pairs"] in folders)
    sources = tuple(root / p for p in nested_paths(stage.inputs["datasets"]))
    return ReviewTarget(spec.name, "pairs", name, named_entry or default_entry, named_entry is not None, recipes, sources)


def _pool(project: Project, target: ReviewTarget, request: ReviewRequest) -> Pool:
    from qualm.runners.review.pool import read_dataset_pool, read_pool

    folders = {s.name: project.root / next(nested_paths(s.outputs)) for s in target.makers}
    if missing := [n for n, folder in folders.items() if not (folder / "samples.parquet").is_file()]:
        how = how_to_make(target.spec, missing, project.run_wide.default)
        what = "pairs" if target.section == "pairs" else "questions"
        raise ProjectError(f"the {what} of '{target.name}' are not made yet; make them {how}")
    report_changed(project.root, [*folders.values(), *target.sources])
    if target.section == "pairs":
        pool = read_pool(list(folders.values()), target.sources)
    else:
        pool = read_dataset_pool(target.name, next(iter(folders.values())), target.rule, target.subsets)
    return pool.only(request.category, request.sample, 0)


def _review(session: ReviewSession, title: str, request: ReviewRequest, root: Path) -> None:
    if not request.page:
        from qualm.runners.review.terminal import run

        run(session)
        return
    from qualm.runners.review.page import serve

    until_stopped(
        lambda: serve(session, title, request.port),
        lambda url: say.REVIEW_PAGE.format(reviewer=session.journal.reviewer, title=title, url=url, advice=say.PAGE_IS_OPEN),
        root / OPENING if request.browse else None,
    )


def _finish(root: Path, target: ReviewTarget) -> None:
    from qualm.registry.entries.printing import commit_command
    from qualm.runners.review.journal import publish

    added = publish(root, target.entry)
    print(_outcome_message(target.entry, added))
    if added is None:
        return
    print(say.NEXT_COMMAND.format(command=commit_command(added.entry)))
    if not target.curated:
        where = f"{target.section}.{target.name.partition('@')[0]}"
        print(say.USE_DECISIONS.format(entry=target.entry, section=where))


def _outcome_message(entry: str, added: Added | None) -> str:
    """Return a message naming the entry's new version; if `added` is None, "unchanged"."""
    if added is None:
        return say.DECISIONS_UNCHANGED.format(entry=entry)
    return say.DECISIONS_PUBLISHED.format(entry=entry, outcome=added.outcome, version=added.entry.version)
