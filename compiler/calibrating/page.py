"""`qualm calibrate`: the page on which a person turns the strength, votes, and writes a value into the spec."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from compiler import writeback
from compiler.calibrating.entry import Entry
from compiler.calibrating.wanted import OUTPUT, Wanted
from compiler.errors import SpecError
from compiler.project import ProjectError
from compiler.resolved import Resolved
from compiler.serving import own_name, until_stopped

if TYPE_CHECKING:
    from runners.calibrating.bench import Bench
    from runners.calibrating.knobs import Knob


def serve_page(
    resolved: Resolved, bench: Bench, knobs: list[Knob], wanted: Wanted, entry: Entry, place: writeback.Place, own: bool
) -> None:
    """Serves the page until Ctrl-C; values are written only into the spec's `own` file."""
    from runners.calibrating.page import serve
    from runners.calibrating.session import Session, WriteError
    from runners.calibrating.votes import Votes

    points = {k: entry.args[k] for k in entry.given} if entry.pointed else {}

    def write(parameter: str, value: float, add: bool, how: str) -> str:
        where = replace(place, parameter=parameter, point=points.get(parameter))
        try:
            done = writeback.write(where, value, "add" if add else "replace", how)
        except (ProjectError, SpecError) as error:
            raise WriteError(str(error)) from error
        if parameter in points and not add:
            points[parameter] = value
        return f"{done}; next: qualm compile {place.file.stem}"

    reviewer = wanted.reviewer or own_name()
    votes = Votes(Path(OUTPUT) / resolved.spec.name / "votes.csv")
    session = Session(bench, knobs, votes, reviewer, write if own else None)
    title = f"{entry.plugin.name} in {resolved.spec.name}"
    until_stopped(
        lambda: serve(session, title, wanted.port, wanted.browse),
        lambda url: f"{reviewer} calibrates {title} at {url}\nCtrl-C here ends it; votes are in {votes.path}",
    )
