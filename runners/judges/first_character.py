"""A judge of multiple-choice answers in words: the reply's first character, as most harnesses read SEED-Bench. Li et al., 2023."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from runners.judges import Judgement
from runners.judges._options import judged
from runners.prompts import LETTERS

CITES = ["li2023seedbench"]


def first_character(
    questions: list[str],
    references: list[list[str]],
    predictions: list[str],
    choices: list[list[str]],
    *,
    on_failure: Literal["unscored", "wrong"] = "unscored",
) -> list[Judgement]:
    """Right if the reply's first character, spaces aside, is the right option's letter, in either case.

    A reply that begins with no option's letter is unscored with `parse_ok` false. "Actually, C" begins with an A: tell models to answer
    with the letter alone, or use `option_match`.

    Args:
        on_failure: `wrong`: a reply that begins otherwise is wrong, as harnesses that compare the character have it.
    """
    return [judged(*row, _named, on_failure) for row in zip(references, predictions, choices, strict=True)]


def _named(prediction: str, choices: Sequence[str]) -> int | None:
    place = LETTERS.find(prediction.strip()[:1].upper() or " ")
    return place if 0 <= place < len(choices) else None
