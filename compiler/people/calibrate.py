"""`qualm calibrate`: which perturbation of which spec, on which samples, by whom its strength is judged, and where the choice goes."""

from contextlib import chdir
from pathlib import Path

from qualm.compiler.people import edit_yaml
from qualm.compiler.people.strength_bench import open_bench
from qualm.compiler.people.strength_entry import find_entry
from qualm.compiler.people.strength_page import serve_page
from qualm.compiler.people.strength_request import StrengthRequest, goal_of
from qualm.compiler.people.strength_search import search_strength
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError


def calibrate(project: Project, spec: str | None, request: StrengthRequest) -> bool:
    """Search, or serve the page until Ctrl-C. False if a search found nothing.

    Raises:
        ProjectError: the question was wrong, or something is missing; what to do stands in the message.
    """
    from qualm.runners.contracts.models import ModelError
    from qualm.runners.runtime.stage import StageError
    from qualm.runners.tools.pages import PageError
    from qualm.runners.tools.strengths.votes import VoteError

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
    return f"the perturbations stand in {file.name}, which this spec extends and others may; calibrate that one, or write them here"
