"""Which option an answer in words names, held to the right one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runners.judges import Judgement
from runners.prompts import LETTERS

Named = Callable[[str, Sequence[str]], int | None]
"""Answer and options -> the place of the option that the answer names; None where none or several are."""


def judged(references: Sequence[str], prediction: str, choices: Sequence[str], named: Named) -> Judgement:
    """1 where the named option is the right one (`references`: its text and its letter), 0 where it is another; unscored where none is."""
    place = named(prediction, choices) if choices else None
    if place is None:
        return Judgement(rating=None, pred_is_idk=None, parse_ok=False)
    return Judgement(rating=float(LETTERS[place] == references[1]), pred_is_idk=None)
