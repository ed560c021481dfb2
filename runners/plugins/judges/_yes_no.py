"""What judges of yes-or-no questions share: each reads "yes", "no" or neither in an answer, and that is held to the reference."""

import re
from collections.abc import Callable
from typing import Literal

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.scoring.answer_text import normalise

YesNo = Literal["yes", "no"] | None
MARKS = {"yes": 1.0, "no": 0.0, None: -1.0}
"""What stands in the marks `said` and `truth`; only the former can be neither."""
_ANNOUNCED = re.compile(r"\b(?:final\s+)?answer\b\W*(?:is\b\W*)?(yes|no)\b")
_WORD = re.compile(r"\b(?:yes|no)\b")
_FIRST = re.compile(r"\W*(yes|no)\b")


def yes_or_no(text: str) -> YesNo:
    """What a reply comes to: what stands behind its last "answer", else its first word, else its only one of the two words.

    >>> yes_or_no("Yes, it is."), yes_or_no("The answer is no."), yes_or_no("I see no reason to say yes"), yes_or_no("Final answer: **No**")
    ('yes', 'no', None, 'no')
    """
    plain = text.casefold()
    announced, first, words = _ANNOUNCED.findall(plain), _FIRST.match(plain), set(_WORD.findall(plain))
    verdict = announced[-1] if announced else first[1] if first else words.pop() if len(words) == 1 else None
    return None if verdict is None else "yes" if verdict == "yes" else "no"


def judged(read: Callable[[str], YesNo], questions: list[str], references: list[list[str]], predictions: list[str]) -> list[Judgement]:
    """Right where what is read is the reference, wrong where it is the other or neither; marks `said` and `truth`.

    A question whose references are not just one of yes and no is unscored; one without references is right where it is declined.
    """
    return [_judge(read, *row) for row in zip(questions, references, predictions, strict=True)]


def _judge(read: Callable[[str], YesNo], question: str, references: list[str], prediction: str) -> Judgement:
    declines = is_refusal(prediction, question)
    if not references:
        return Judgement(rating=float(declines), pred_is_idk=declines)
    truths = {normalise(r) for r in references} & {"yes", "no"}
    if len(truths) != 1:
        return Judgement(rating=None, pred_is_idk=declines, parse_ok=False)
    verdict, truth = read(prediction), truths.pop()
    return Judgement(float(verdict == truth), declines, marks={"said": MARKS[verdict], "truth": MARKS[truth]})
