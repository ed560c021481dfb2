"""Judges: how right an open answer is, and whether it declines to answer. Multiple-choice answers need no judge.

The contract of a plugin `NAME.py`:

    def NAME(questions: list[str], references: list[list[str]], predictions: list[str], *, ...) -> list[Judgement]

- One judgement per question, in order. No references means that declining is the right answer.
- `rating` is 1 right, 0.5 partly right, 0 wrong; None where the judge could not tell, which is counted and never guessed.
- An answer that declines is right (1) where declining is right and wrong (0) elsewhere; any other answer is wrong (0) where
  declining is right.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge made of one answer."""

    rating: float | None
    pred_is_idk: bool | None
    """The answer declines: says that it does not know or that the question cannot be answered."""
    reply: str | None = None
    """What a model that judges said."""
    parse_ok: bool = True
    """False if that could not be read."""
