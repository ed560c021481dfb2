"""A judge of multiple-choice answers in words: which option's letter or text does the reply name? Liu et al., 2023 (MMBench)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from registry.plugins import Chosen, Kind
from runners.judges import JudgeContext, Judgement
from runners.judges._options import judged
from runners.judging import Answered, judge, ref_of
from runners.prompts import LETTERS

CITES = ["liu2023mmbench"]
AROUND = (
    *(("", "."), ("", ","), ("", ":"), ("", ")"), ("", ")."), ("(", ")"), ("(", ").")),
    *((":", ""), (":", ","), (":", "."), (":", ")"), (":", ").")),
)
"""What may stand before and behind a letter, tried in this order."""
ARTICLE = 3
"""An "A" in a reply of more words may be an article."""


def option_match(
    context: JudgeContext,
    questions: list[str],
    references: list[list[str]],
    predictions: list[str],
    choices: list[list[str]],
    *,
    otherwise: Annotated[Chosen, Kind("judges")] | None = None,
    on_failure: Literal["unscored", "wrong"] = "unscored",
) -> list[Judgement]:
    """Right if the reply names the right option, by the first two of MMBench's four steps.

    1. One of the options' letters, and no second one, is a word of the reply, bare or with one kind of mark around it (`B.`, `(B)`,
       `:B`...); a bare "A" in more than three words is not counted, since it may be an article. 2. Else one option's text, and no
       second one's, occurs in the reply, letter case aside. Replies that neither step can read are unscored with `parse_ok` false, or
       go to the judge `otherwise`, which sees the right option's text and letter as references: MMBench's third step asks a language
       model. Its fourth takes a random option; that is never done here.

    For multiple-choice questions to which there are texts and no numbers per option. In [0, 1], higher is better.

    Args:
        otherwise: A judge for replies that cannot be read: of open answers (`lave: {by: ...}`), or another of options.
        on_failure: `wrong`: a reply that names no option, or several, is wrong, where there is no such judge.
    """
    found = [judged(*row, named, on_failure) for row in zip(references, predictions, choices, strict=True)]
    left = [i for i, one in enumerate(found) if not one.parse_ok]
    if otherwise is None or not left:
        return found
    asked = [Answered(questions[i], tuple(references[i]), predictions[i], choices=tuple(choices[i])) for i in left]
    for i, one in zip(left, judge(ref_of(otherwise, "option_match"), asked, context.settings, context.counters), strict=True):
        found[i] = one
    return found


def named(prediction: str, choices: Sequence[str]) -> int | None:
    """The place of the option that a reply names.

    >>> options = ["a red cube", "a blue ball", "two cats"]
    >>> [named(reply, options) for reply in ("B", "(B) a red cube", "A cat, I think it is C", "It is a Blue ball.", "A or B", "blue")]
    [1, 1, 2, 1, None, None]
    """
    words = prediction.split()
    letters = LETTERS[: len(choices)]
    for before, behind in (("", ""), *AROUND):
        there = [i for i, letter in enumerate(letters) if before + letter + behind in words]
        if len(there) == 1 and (before or behind or there != [0] or len(words) <= ARTICLE):
            return there[0]
    text = prediction.lower()
    inside = [i for i, choice in enumerate(choices) if choice.lower() in text]
    return inside[0] if len(inside) == 1 else None
