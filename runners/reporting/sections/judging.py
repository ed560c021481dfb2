"""Judges against human judgements: CertainlyUncertain's tables 8 and 9."""

from pathlib import Path
from typing import Any

from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.section import Section
from qualm.runners.reporting.sections.data_sets import Sheet, read_record
from qualm.runners.reporting.text import aside, between, number, percent, small, visible


def judging(results: Report) -> Sheet | None:
    """Return a table of judges against people's labels; None if none were compared."""
    path = results.stage.inputs.get("judging")
    record = read_record(Path(path)) if path else None
    if not record:
        return None
    return Sheet(say.JUDGES, [*say.JUDGES_COLUMNS], [_row(name, of) for name, of in record.items()], note=say.JUDGES_NOTE)


def _row(name: str, of: dict[str, Any]) -> list[str]:
    refusals, ratings = of["refusals"], of["ratings"]
    share = "undefined"
    if refusals["accuracy"] is not None:
        share = percent(refusals["accuracy"]) + aside(between(refusals, 1, form=percent))
    return [
        visible(name, 80),
        share,
        f"{refusals['missed']:,}",
        f"{refusals['imagined']:,}",
        number(ratings["tau_b"]) + (aside(between(ratings, 2)) if ratings.get("low") is not None else ""),
        "undefined" if ratings["p"] is None else small(ratings["p"]),
        "undefined" if ratings["equal"] is None else f"{percent(ratings['equal'])} of {ratings['n']:,}",
        *(_share(of[name]) for name in ("sensitivity", "specificity")),
        f"{of['n']:,}",
        f"{of['unread']:,}",
    ]


def _share(of: dict[str, Any]) -> str:
    return "undefined" if of["share"] is None else f"{percent(of['share'])}{aside(between(of, 1, form=percent))} of {of['n']:,}"


READS = ("judging",)
ASSETS = ["../templates/sheet_section.html"]
SECTION = Section("judges", "Judges", judging, "sheet_section.html")
