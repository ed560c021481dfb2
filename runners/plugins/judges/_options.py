"""What an answer in words says, held to the right option."""

from collections.abc import Callable, Sequence
from typing import Literal

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._choices import OptionReading
from qualm.runners.prompts.question import LETTERS

OnFailure = Literal["unscored", "wrong"]
Reader = Callable[[str, Sequence[str], str], OptionReading]
"""Answer, options and question -> what the answer says."""


def judged(
    question: str, references: Sequence[str], prediction: str, choices: Sequence[str], read: Reader, on_failure: OnFailure = "unscored"
) -> Judgement:
    """1 where the option that is named is the right one (`references`: its text and its letter), 0 where it is another or the answer
    declines; where it says neither, as `on_failure` has it. Without references declining is right."""
    reading = read(prediction, choices, question) if choices else OptionReading()
    if choices and not references:
        return Judgement(rating=float(reading.declines), pred_is_idk=reading.declines)
    if reading.place is not None:
        return Judgement(rating=float(LETTERS[reading.place] == references[1]), pred_is_idk=reading.declines)
    if reading.declines:
        return Judgement(rating=0.0, pred_is_idk=True)
    return Judgement(rating=0.0 if on_failure == "wrong" and choices else None, pred_is_idk=False if choices else None, parse_ok=False)
