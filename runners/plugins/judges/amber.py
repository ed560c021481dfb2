"""Yes or no as AMBER's own script reads it. AMBER: Wang, Wang, Xu et al., 2023."""

import re
from typing import Literal

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._yes_no import YesNo, rate_yes_no

CITES = ["wang2023amber"]
MARKS = ["said", "truth"]


def amber(
    questions: list[str], references: list[list[str]], predictions: list[str], *, match: Literal["exact", "first_word"] = "exact"
) -> list[Judgement]:
    """Judge each answer by AMBER's rule: exactly `Yes` or `No` is read, all else is wrong.

    Anything else, even "Yes.", is wrong and counts as neither.
    Ask for a single word (`instruction` of the adapter `amber`) or nearly everything is neither. For `yes_no_f1` and its like with
    `judge: amber` and `positive: "no"`.

    Args:
        match: `exact`, or `first_word`: the first word in any case, whatever follows it, as most who use AMBER prepare the answers.
    """
    return rate_yes_no(_exact if match == "exact" else _first_word, questions, references, predictions)


def _exact(text: str) -> YesNo:
    return "yes" if text == "Yes" else "no" if text == "No" else None


def _first_word(text: str) -> YesNo:
    match = re.match(r"\W*(yes|no)\b", text.casefold())
    return None if match is None else "yes" if match[1] == "yes" else "no"
