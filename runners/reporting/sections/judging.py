"""How far the judges can be trusted, held to answers that people judged: CertainlyUncertain's tables 8 and 9."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qualm.runners.reporting.load import Results
from qualm.runners.reporting.sections.data_sets import Sheet, read_record
from qualm.runners.reporting.text import aside, between, number, percent, small, visible


def judging(results: Results) -> Sheet | None:
    """A row per judge; None where the spec names no labelled answers."""
    path = results.stage.inputs.get("judging")
    record = read_record(Path(path)) if path else None
    if not record:
        return None
    return Sheet(
        "Judges against people",
        [
            "judge",
            "right on refusals ↑ (Wilson 95%)",
            "missed",
            "imagined",
            "Kendall’s τ-b ↑ (95%)",
            "p",
            "rated alike",
            "sensitivity ↑ (95%)",
            "specificity ↑ (95%)",
            "answers",
            "unread",
        ],
        [_row(name, of) for name, of in record.items()],
        note="How to read it: on labelled answers, how often the judge recognises a refusal and how many it missed or invented; and "
        "the rank correlation of its ratings with people’s, from −1 to 1. Sensitivity: of the answers that people call right, and the "
        "judge right or wrong, the share that it calls right; specificity: the same of wrong ones. Scores use the first judge. "
        "Unreadable replies give no rating.",
    )


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
