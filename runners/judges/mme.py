"""Yes or no as MME's evaluation reads it. MME: Fu, Chen, Shen et al., 2023."""

from __future__ import annotations

from runners.judges import Judgement
from runners.judges._yes_no import Said, judged

MARKS = ["said", "truth"]
FIRST = 4
"""Characters in which either word is looked for."""


def mme(questions: list[str], references: list[list[str]], predictions: list[str]) -> list[Judgement]:
    """The rule in use: in lower case without full stops and outer spaces, `yes` or `no`, a lone `y` or `n`, or else "yes" and then
    "no" anywhere in the first four characters. What has neither there is wrong.

    "No, it is" is "no" and so is "Now", "Not at all" or "Nope"; "The answer is yes" is neither. For `mme_score` and `yes_no_f1`.
    """
    return judged(_read, questions, references, predictions)


def _read(text: str) -> Said:
    plain = text.lower().strip().replace(".", "")
    if plain in ("y", "n"):
        return "yes" if plain == "y" else "no"
    return "yes" if "yes" in plain[:FIRST] else "no" if "no" in plain[:FIRST] else None
