"""A judge of fixed rules: normalised match with a reference, refusals by their usual phrases. Free, fast and repeatable.

It is strict: a right answer in other words counts as wrong. For answers of a word or two that is what one wants; for
sentences use a model as the judge.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from runners.judges import Judgement
from runners.judges._refusals import is_refusal


def rules(
    questions: list[str], references: list[list[str]], predictions: list[str], *, match: Literal["exact", "contained"] = "exact"
) -> list[Judgement]:
    """Right if the answer equals a reference up to case, punctuation, articles and number words.

    Rating 1 or 0, never half. Refusals are found by their phrases, which see the question too: "there is no car" declines to say
    what color the car is, and answers whether there is one. "Not sure, but I think blue" is an answer. Of the part of our labelled
    set that was set aside (tests/data/refusals.csv) 97% are told right.

    Args:
        match: `exact`: the whole answer is the reference. `contained`: the reference's words occur in it, in a row.
    """
    return [_judge(*row, match) for row in zip(questions, references, predictions, strict=True)]


def _judge(question: str, references: list[str], prediction: str, match: str) -> Judgement:
    declines = is_refusal(prediction, question)
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
