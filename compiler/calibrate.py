"""`qualm calibrate`: which perturbation of which spec, on which samples, by whom its strength is judged, and where the choice goes."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

from compiler import writeback
from compiler.calibrating.bench import open_bench
from compiler.calibrating.entry import find_entry
from compiler.calibrating.page import serve_page
from compiler.calibrating.search import search_strength
from compiler.calibrating.wanted import Wanted, goal_of
from compiler.project import Project, ProjectError


def calibrate(project: Project, spec: str | None, wanted: Wanted) -> bool:
    """Search, or serve the page until Ctrl-C. False if a search found nothing.

    Raises:
        ProjectError: the question was wrong, or something is missing; what to do stands in the message.
    """
    from runners.calibrating.votes import VoteError
    from runners.models import ModelError
    from runners.pages import PageError
    from runners.stage import StageError

    path = project.spec_path(spec)
    resolved, plan = project.resolve(spec), project.plan(spec)
    entry = find_entry(path, project.root, resolved, wanted.perturbation)
    own_file = writeback.holds(path, project.root)
    goal = goal_of(wanted, entry) if wanted.auto else None
    if wanted.write and own_file != path:
        raise ProjectError(_inherited(own_file))
    try:
        with chdir(project.root), open_bench(project, resolved, plan, entry, wanted, goal) as (bench, knobs, stage):
            place = writeback.Place(own_file, entry.index, entry.plugin.name, "")
            if goal is not None:
                return search_strength(resolved, entry, bench, knobs[0], goal, wanted, place, stage)
            serve_page(resolved, bench, knobs, wanted, entry, place, own_file == path)
            return True
    except (StageError, ModelError, PageError, VoteError) as error:
        raise ProjectError(str(error)) from error


def _inherited(file: Path) -> str:
    return f"the perturbations stand in {file.name}, which this spec extends and others may; calibrate that one, or write them here"
