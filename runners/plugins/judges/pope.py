"""Yes or no as POPE's own script reads it. POPE: Li, Du, Zhou, Wang, Zhao, Wen, 2023 (EMNLP)."""

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._yes_no import YesNo, rate_yes_no

CITES = ["li2023evaluating"]
MARKS = ["said", "truth"]


def pope(questions: list[str], references: list[list[str]], predictions: list[str]) -> list[Judgement]:
    r"""Judge each answer as "no" if its first sentence has `No`, `not` or `no`, else as "yes".

    The first sentence is the text before the first full stop.

    Commas are deleted and words are parted by single spaces, so that "NO", "nothing", "Yes. No" and "\nNo" are "yes", and "It is not
    visible" is "no". There is no third reading: whatever a model says is one of the two. For `yes_no_f1` and its like.
    """
    return rate_yes_no(_read, questions, references, predictions)


def _read(text: str) -> YesNo:
    words = text.split(".")[0].replace(",", "").split(" ")
    return "no" if {"No", "not", "no"} & set(words) else "yes"
