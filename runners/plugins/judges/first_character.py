"""Judge of multiple-choice answers by a reply's first character, as most harnesses read SEED-Bench. Li et al., 2023."""

from collections.abc import Sequence
from typing import Literal

from qualm.registry import LETTERS
from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._choices import OptionReading, rate_option_reply
from qualm.runners.plugins.judges._refusals import is_refusal

CITES = ["li2023seedbench"]


def first_character(
    questions: list[str],
    references: list[list[str]],
    predictions: list[str],
    choices: list[list[str]],
    *,
    on_failure: Literal["unscored", "wrong"] = "unscored",
) -> list[Judgement]:
    """Judge each reply 1 if it begins with the right option's letter, 0 for another option's.

    Upper and lower case count alike.
    A reply that begins with no option's letter is unscored with `parse_ok` false, or wrong where it declines. "Actually, C" begins with
    an A, and "Don't know" with a D: tell models to answer with the letter alone, or use `option_match`.

    Args:
        on_failure: `wrong`: a reply that begins otherwise is wrong, as harnesses that compare the character have it.
    """
    return [rate_option_reply(*row, _read, on_failure) for row in zip(questions, references, predictions, choices, strict=True)]


def _read(prediction: str, choices: Sequence[str], question: str) -> OptionReading:
    place = LETTERS.find(prediction.strip()[:1].upper() or " ")
    return OptionReading(place if 0 <= place < len(choices) else None, is_refusal(prediction, question))
