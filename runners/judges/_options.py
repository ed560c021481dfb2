"""Which option an answer in words names, held to the right one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from runners.judges import Judgement
from runners.prompts import LETTERS

OnFailure = Literal["unscored", "wrong"]
Named = Callable[[str, Sequence[str]], int | None]
"""Answer and options -> the place of the option that the answer names; None where none or several are."""


def judged(references: Sequence[str], prediction: str, choices: Sequence[str], named: Named, on_failure: OnFailure) -> Judgement:
    """1 where the named option is the right one (`references`: its text and its letter), 0 where it is another; where none is, as said."""
    place = named(prediction, choices) if choices else None
    if place is None:
        return Judgement(rating=0.0 if on_failure == "wrong" and choices else None, pred_is_idk=None, parse_ok=False)
    return Judgement(rating=float(LETTERS[place] == references[1]), pred_is_idk=None)
