"""What judges of yes-or-no questions share: each reads "yes", "no" or neither in an answer, and that is held to the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from runners.judges import Judgement
from runners.judges._refusals import is_refusal
from runners.judges.rules import normalise

Said = Literal["yes", "no"] | None
MARKS = {"yes": 1.0, "no": 0.0, None: -1.0}
"""What stands in the marks `said` and `truth`; only the former can be neither."""


def judged(read: Callable[[str], Said], questions: list[str], references: list[list[str]], predictions: list[str]) -> list[Judgement]:
    """Right where what is read is the reference, wrong where it is the other or neither; marks `said` and `truth`.

    A question whose references are not just one of yes and no is unscored; one without references is right where it is declined.
    """
    return [_judge(read, *row) for row in zip(questions, references, predictions, strict=True)]


def _judge(read: Callable[[str], Said], question: str, references: list[str], prediction: str) -> Judgement:
    declines = is_refusal(prediction, question)
    if not references:
        return Judgement(rating=float(declines), pred_is_idk=declines)
    wanted = {normalise(r) for r in references} & {"yes", "no"}
    if len(wanted) != 1:
        return Judgement(rating=None, pred_is_idk=declines, parse_ok=False)
    said, truth = read(prediction), wanted.pop()
    return Judgement(float(said == truth), declines, marks={"said": MARKS[said], "truth": MARKS[truth]})
