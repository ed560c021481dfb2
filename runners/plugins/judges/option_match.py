"""Judge of multiple-choice answers in words, by the option that they name. MMBench: Liu et al., 2023."""

from collections.abc import Sequence
from typing import Annotated, Literal

from qualm.registry import LETTERS
from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._choices import OptionReading, rate_option_reply, read
from qualm.runners.plugins.judges._refusals import is_refusal

CITES = ["liu2023mmbench"]
AROUND = (
    *(("", "."), ("", ","), ("", ":"), ("", ")"), ("", ")."), ("(", ")"), ("(", ").")),
    *((":", ""), (":", ","), (":", "."), (":", ")"), (":", ").")),
)
"""Characters allowed before and after a letter, in the order tried."""
ARTICLE = 3
"""An "A" in a reply of more words may be an article."""


def option_match(
    questions: list[str],
    references: list[list[str]],
    predictions: list[str],
    choices: list[list[str]],
    *,
    rule: Literal["harnesses", "mmbench"] = "harnesses",
    otherwise: Annotated[Chosen, Kind("judges")] | None = None,
    on_failure: Literal["unscored", "wrong"] = "unscored",
) -> list[Judgement]:
    r"""Judge each reply 1 if it names the right option, 0 for another; None if unreadable.

    `harnesses`: the first kind of evidence found decides. 1. The reply is an option's letter, text, or both. 2. It states its answer
    ("the answer is B", `\boxed{B}`, "B is correct", a last line that is an option); the last statement counts, so that "wait, I mean C"
    corrects. 3. It gives each option a percentage or a rank. 4. It begins with an option. 5. It concludes ("therefore ... B", "B is the
    most similar"). 6. It rejects all options but one. 7. It mentions one option only. Mentions that are denied, supposed or asked do not
    count. A reply that abstains is wrong. One that names several options or none is unscored with `parse_ok` false, or goes to the judge
    `otherwise`; no option is chosen at random. On real replies of eight models it agrees with the benchmarks' authors in 98 to 99%
    (docs/reference/judging.md).

    `mmbench`: the first two of MMBench's four steps. 1. One of the options' letters, and no second one, is a word of the reply, bare or
    with one kind of mark around it (`B.`, `(B)`, `:B`...); a bare "A" in more than three words is not counted. 2. Else one option's
    text, and no second one's, occurs in the reply, letter case aside. Its third step asks a language model: `otherwise`.

    For multiple-choice questions that were answered in words, without numbers per option. In [0, 1], higher is better.

    Args:
        rule: How a reply is read.
        otherwise: A judge for replies that cannot be read: `llm_extract: {by: ...}`, or one of open answers (`lave: {by: ...}`), which sees
            the right option's text and letter as references. Whoever applies the judge asks it (`qualm.runners.scoring.apply_judge`).
        on_failure: `wrong`: a reply that names no option, or several, is wrong, where there is no such judge.
    """
    reader = read if rule == "harnesses" else _mmbench
    return [rate_option_reply(*row, reader, on_failure) for row in zip(questions, references, predictions, choices, strict=True)]


def _mmbench(prediction: str, choices: Sequence[str], question: str) -> OptionReading:
    place = find_option(prediction, choices)
    return OptionReading(place, place is None and is_refusal(prediction, question))


def find_option(prediction: str, choices: Sequence[str]) -> int | None:
    """Return the index of the one option that MMBench's rule reads in a reply, else None.

    >>> options = ["a red cube", "a blue ball", "two cats"]
    >>> [find_option(reply, options) for reply in ("B", "(B) a red cube", "A cat, I think it is C", "It is a Blue ball.", "A or B", "blue")]
    [1, 1, None, 1, None, None]
    """
    words = prediction.split()
    letters = LETTERS[: len(choices)]
    for before, behind in (("", ""), *AROUND):
        there = [i for i, letter in enumerate(letters) if before + letter + behind in words]
        if len(there) == 1 and (before or behind or there != [0] or len(words) <= ARTICLE):
            return there[0]
    text = prediction.lower()
    inside = [i for i, choice in enumerate(choices) if choice.strip() and choice.lower() in text]
    return inside[0] if len(inside) == 1 else None
