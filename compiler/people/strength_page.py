"""`qualm calibrate`: the page on which a person turns the strength, votes, and writes a value into the spec."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qualm.compiler.people import edit_yaml
from qualm.compiler.people.serving import ADVICE, OPENING, own_name, until_stopped
from qualm.compiler.people.strength_entry import PerturbationEntry
from qualm.compiler.people.strength_request import OUTPUT, StrengthRequest
from qualm.compiler.resolve.resolved import Resolved
from qualm.compiler.spec.errors import ProjectError, SpecError

if TYPE_CHECKING:
    from qualm.runners.tools.strengths.bench import Bench
    from qualm.runners.tools.strengths.knobs import Knob


def serve_page(
    resolved: Resolved,
    bench: Bench,
    knobs: list[Knob],
    request: StrengthRequest,
    entry: PerturbationEntry,
    place: edit_yaml.EditTarget,
    own: bool,
) -> None:
    """Serves the page until Ctrl-C; values are written only into the spec's `own` file."""
    from qualm.runners.tools.strengths.page import serve
    from qualm.runners.tools.strengths.session import StrengthSession, WriteError
    from qualm.runners.tools.strengths.votes import Votes

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
