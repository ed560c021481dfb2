"""OODCV-VQA's answers as its authors' own script reads them. Tu et al., 2023 ("How Many Unicorns Are in This Image?")."""

import re

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.plugins.judges.vqa import MAX_PERIODS, replace_marks

CITES = ["tu2023how"]
WORDS = {
    "Yes": ("yes", "Yes", "yeah", "Yeah"),
    "No": ("no", "No", "nope", "Nope"),
    "0": ("none", "no", "zero"),
    "1": ("one", "single", "1"),
    **{str(n): (word, str(n)) for n, word in enumerate(["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], 2)},
}
"""Reference -> texts one of which is to occur in the answer."""


def oodcv_vqa(questions: list[str], references: list[list[str]], predictions: list[str]) -> list[Judgement]:
    """Judge each answer 1 if a word for its reference occurs in it, even in a longer word.

    Marks of punctuation are deleted or become spaces as in VQA's evaluation, full stops are deleted except before a digit, and what follows
    the first one that is left is not read. So "none" has the "one" of 1 and "not" the "no" of 0, "Two" is not "two", and "0" is not zero.
    Ratings are 1 and 0, for `{card: oodcv_vqa, format: open}`; a question with another reference than Yes, No or 0 to 10 is unscored. The
    script keeps one answer per image, the last question's; here every question counts.
    """
    return [_judge(*row) for row in zip(questions, references, predictions, strict=True)]


def _judge(question: str, references: list[str], prediction: str) -> Judgement:
    declines = is_refusal(prediction, question)
    if not references:
        return Judgement(rating=float(declines), pred_is_idk=declines)
    if len(references) != 1 or references[0] not in WORDS:
        return Judgement(rating=None, pred_is_idk=declines, parse_ok=False)
    read = re.sub(r"\.(?!\d)", "", replace_marks(prediction), count=MAX_PERIODS).split(".")[0]
    return Judgement(rating=float(any(word in read for word in WORDS[references[0]])), pred_is_idk=declines)
