"""`qualm calibrate`: choose a perturbation's strength on samples of a spec, by people or by a search."""

from __future__ import annotations

from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qualm.compiler.commands import edit_yaml
from qualm.compiler.commands.strength_bench import open_bench
from qualm.compiler.commands.strength_entry import PerturbationEntry, find_entry
from qualm.compiler.commands.strength_request import OUTPUT, StrengthRequest, goal_of
from qualm.compiler.commands.strength_search import search_strength
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError, SpecError
from qualm.compiler.spec.resolved import Resolved
from qualm.compiler.viewing.serving import ADVICE, OPENING, own_name, until_stopped

if TYPE_CHECKING:
    from qualm.runners.review.bench import Bench
    from qualm.runners.review.knobs import Knob


def calibrate(project: Project, spec: str | None, request: StrengthRequest) -> bool:
    """Choose the strength of a perturbation: by a search, or on a page that is served until Ctrl-C.

    Returns:
        False if the search finds no strength, otherwise True.
    """
    from qualm.runners.contracts.models import ModelError
    from qualm.runners.review.pages import PageError
    from qualm.runners.review.votes import VoteError
    from qualm.runners.runtime.stage import StageError

    path = project.spec_path(spec)
    resolved, plan = project.resolve(spec), project.plan(spec)
    entry = find_entry(path, project.root, resolved, request.perturbation)
    own_file = edit_yaml.holds(path, project.root)
    goal = goal_of(request, entry) if request.auto else None
    if request.write and own_file != path:
        raise ProjectError(_inherited(own_file))
    try:
        with chdir(project.root), open_bench(project, resolved, plan, entry, request, goal) as (bench, knobs, stage):
            place = edit_yaml.EditTarget(own_file, entry.index, entry.plugin.name, "")
            if goal is not None:
                return search_strength(resolved, entry, bench, knobs[0], goal, request, place, stage)
            serve_page(resolved, bench, knobs, request, entry, place, own_file == path)
            return True
    except (StageError, ModelError, PageError, VoteError) as error:
        raise ProjectError(str(error)) from error


def _inherited(file: Path) -> str:
    return f"the perturbations are in {file.name}, which this spec extends and others may; calibrate that one, or write them here"


def serve_page(
    resolved: Resolved,
    bench: Bench,
    knobs: list[Knob],
    request: StrengthRequest,
    entry: PerturbationEntry,
    place: edit_yaml.EditTarget,
    own: bool,
) -> None:
    """Serve the page until Ctrl-C; only an `own` spec can be written to."""
    from qualm.runners.review.strength_page import serve
    from qualm.runners.review.strength_session import StrengthSession, WriteError
    from qualm.runners.review.votes import Votes

    points = {k: entry.args[k] for k in entry.named} if entry.pointed else {}

    def write(parameter: str, value: float, add: bool, how: str) -> str:
        where = replace(place, parameter=parameter, point=points.get(parameter))
        try:
            done = edit_yaml.write(where, value, "add" if add else "replace", how)
        except (ProjectError, SpecError) as error:
            raise WriteError(str(error)) from error
        if parameter in points and not add:
            points[parameter] = value
        return f"{done}; next: qualm compile {place.file.stem}"

    reviewer = request.reviewer or own_name()
    votes = Votes(Path(OUTPUT) / resolved.spec.name / "votes.csv")
    session = StrengthSession(bench, knobs, votes, reviewer, write if own else None)
    title = f"{entry.plugin.name} in {resolved.spec.name}"
    until_stopped(
        lambda: serve(session, title, request.port),
        lambda url: f"{reviewer} calibrates {title} at {url}\n{ADVICE}\nCtrl-C here ends it; votes are in {votes.path}",
        Path(OPENING) if request.browse else None,
    )
