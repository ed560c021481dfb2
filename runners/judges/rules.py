"""A judge of fixed rules: normalised match with a reference, refusals by their usual phrases. Free, fast and repeatable.

It is strict: a right answer in other words counts as wrong. For answers of a word or two that is what one wants; for
sentences use a model as the judge.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from runners.judges import Judgement


def rules(
    questions: list[str], references: list[list[str]], predictions: list[str], *, match: Literal["exact", "contained"] = "exact"
) -> list[Judgement]:
    """Right if the answer equals a reference up to case, punctuation, articles and number words.

    Rating 1 or 0, never half. Refusals are found by phrases such as "I don't know" or "cannot be determined", unless an
    answer follows them ("not sure, but I think blue").

    Args:
        match: `exact`: the whole answer is the reference. `contained`: the reference's words occur in it, in a row.
    """
    return [_judge(refs, text, match) for _, refs, text in zip(questions, references, predictions, strict=True)]


def _judge(references: list[str], prediction: str, match: str) -> Judgement:
    declines = is_refusal(prediction)
    if not references or declines:
        return Judgement(rating=float(declines and not references), pred_is_idk=declines)
    said = normalise(prediction)
    wanted = [normalise(r) for r in references]
    if match == "exact":
        return Judgement(rating=float(said in wanted), pred_is_idk=False)
    return Judgement(rating=float(any(w and f" {w} " in f" {said} " for w in wanted)), pred_is_idk=False)


_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty"
)
_NUMBERS = {word: str(number) for number, word in enumerate(_WORDS.split())} | {"none": "0"}
_ARTICLES = {"a", "an", "the"}


def normalise(text: str) -> str:
    """An answer without case, punctuation, articles and the difference between "two" and "2".

    >>> normalise("The Two red-ish cubes.")
    '2 red ish cubes'
    >>> normalise("1,000"), normalise("3.50"), normalise("A")
    ('1000', '3.50', 'a')
    """
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("'", "")
    plain = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", plain)
    plain = re.sub(r"\.(?!\d)|(?<!\d)\.", "", plain)
    words = re.sub(r"[^\w.\s]|_", " ", plain).split()
    kept = [w for w in words if w not in _ARTICLES] or words
    return " ".join(_NUMBERS.get(w, w) for w in kept)


_SEE = r"(?:tell|say|know|see|answer|determine|identify|judge|discern|make out)"
_REFUSALS = re.compile(
    "|".join(
        (
            r"^(?:sorry,? )?(?:i )?(?:really )?(?:do not|don't|dont) (?:really |actually )?know\b",
            r"^(?:sorry,? )?i(?: am|'m) (?:really )?(?:not (?:sure|certain)|unsure|uncertain)\b",
            r"^not (?:sure|certain)\b",
            r"^(?:i have )?no idea\b",
            rf"\bi(?: cannot| can't| can not| am unable to|'m unable to| am not able to|'m not able to) {_SEE}\b",
            rf"^(?:it |this |that )?(?:cannot|can't|can not) {_SEE}\b",
            r"\b(?:cannot|can't|can not) be (?:told|said|known|seen|answered|determined|identified)\b",
            rf"\b(?:impossible|not possible) to {_SEE}\b",
            r"\b(?:not enough|insufficient|too little) (?:information|context|detail)\b",
            r"^(?:the question is |this question is |it is |it's )?(?:unanswerable|unknowable|indeterminate)\W*$",
            r"^(?:it is |it's |the answer is )?(?:unknown|unclear)\W*$",
        )
    )
)
_ANSWERS_AFTER_ALL = re.compile(
    r"\b(?:but|however|though|although|still)\b.{0,40}?\b(?:think|guess|probably|likely|maybe|perhaps|looks?|seems?|appears?|"
    r"may be|might be|could be|would be|is|are)\b"
)


def is_refusal(text: str) -> bool:
    """Does the answer decline to answer? Where in doubt, no.

    >>> is_refusal("I don't know."), is_refusal("I am not sure, but I think blue"), is_refusal("Nothing")
    (True, False, False)
    """
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().replace("’", "'").split())
    found = _REFUSALS.search(plain)
    return found is not None and _ANSWERS_AFTER_ALL.search(plain, found.end()) is None
