"""Yes or no as MME's evaluation tool reads it. MME: Fu, Chen, Shen et al., 2023."""

from typing import Literal

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._yes_no import YesNo, rate_yes_no

CITES = ["fu2023mme"]
MARKS = ["said", "truth"]
FIRST = 4
"""Characters in which either word is looked for."""


def mme(
    questions: list[str], references: list[list[str]], predictions: list[str], *, rule: Literal["official", "lmms_eval"] = "official"
) -> list[Judgement]:
    """Judge each answer by MME's rule: "yes", or else "no", in its first four characters.

    An answer with neither is wrong. Case is ignored.
    "No, it is" is "no" and so are "Now", "Not at all" and "Nope"; "The answer is yes" is neither. For `mme_score` and `yes_no_f1`.

    Args:
        rule: `official`, or `lmms_eval`, which leaves out outer spaces and full stops first and takes a lone `y` or `n`.
    """
    return rate_yes_no(_official if rule == "official" else _lmms_eval, questions, references, predictions)


def _official(text: str) -> YesNo:
    start = text.lower()[:FIRST]
    return "yes" if "yes" in start else "no" if "no" in start else None


def _lmms_eval(text: str) -> YesNo:
    plain = text.lower().strip().replace(".", "")
    return "yes" if plain == "y" else "no" if plain == "n" else _official(plain)
