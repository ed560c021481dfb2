"""Judge of fixed rules: stated references, named options, refusals by usual phrases. Free and fast.

It is strict: a right answer in other words counts as wrong.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from annotated_types import Ge

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._choices import rate_option_reply, read
from qualm.runners.plugins.judges._final_number import rate_number
from qualm.runners.plugins.judges._quantities import equal, read_quantity
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.plugins.judges._stated_text import rate_text, words_of_reference
from qualm.runners.plugins.judges._yes_no import begins_in_another_language, restated, yes_or_no
from qualm.runners.scoring.answer_text import comparison_text, normalise

READS = ["open", "choices"]
YES_OR_NO = {"yes", "no"}
NEGATIVE_ANSWERS = {"nothing", "nobody", "no one", "nowhere", "0"}
"""Negative answers in normal form: "none" is "0"."""


def rules(
    questions: list[str],
    references: list[list[str]],
    predictions: list[str],
    choices: list[list[str]] | None = None,
    *,
    match: Literal["stated", "exact", "contained"] = "stated",
    tolerance: Annotated[float, Ge(0)] = 0.0,
    otherwise: Annotated[Chosen, Kind("judges")] | None = None,
) -> list[Judgement]:
    """Judge each reply 1 if it states a reference or right option, else 0; None if unclear.

    The rating is 1 or 0.
    Texts are equal up to case, punctuation, articles and number words; signs, operators, currencies, emoji and combining marks count.
    Numbers are equal by value: "$1,000.00" is "1000", and "5" is not "-5". A unit may be left out, and must otherwise be the same.

    A sentence is right if it states a reference: not denied ("not red"), not asked or supposed, not one of several ("red or blue"). What
    the reply announces ("the answer is ...") or corrects counts alone. Where two readings remain the reply is unscored. A right answer in
    other words is wrong: `lave` reads these.

    Where the references are yes or no, the answer may be a sentence, reasoning, or informal, in some twenty languages: "Not that I can
    see", "Yes. Hmm, actually: No."; one that says neither is unscored. A reply that commits to no answer abstains: "there is no car" does
    not say what color the car is, and answers whether there is one. "Not sure, but I think blue" is an answer. A multiple-choice question
    that was answered in words is read as by `option_match`; what names no option, or several, is unscored.

    Args:
        match: `stated`: as above. `exact`: the whole reply is the reference. `contained`: the reference's words occur in it, in a row.
        tolerance: the largest difference of two equal numbers, relative to the reference: 0.05 as in ChartQA.
        otherwise: A judge for replies that are unscored, `llm_extract: {by: ...}`. Whoever applies the judge asks it
            (`qualm.runners.scoring.apply_judge`).
    """
    options: list[list[str]] = choices if choices is not None else [[] for _ in questions]
    return [_judge(*row, match, tolerance) for row in zip(questions, references, predictions, options, strict=True)]


def _judge(question: str, references: list[str], prediction: str, choices: Sequence[str], match: str, tolerance: float) -> Judgement:
    if choices:
        return rate_option_reply(question, references, prediction, choices, read)
    truths = [normalise(r) for r in references]
    declines = is_refusal(prediction, question) and not _is_negative_answer(normalise(prediction), truths)
    if declines and set(truths) <= YES_OR_NO and truths and begins_in_another_language(prediction):
        declines = False  # "Nein, da ist kein Hund" says no
    if not references or declines:
        return Judgement(rating=float(declines and not references), pred_is_idk=declines)
    if len(set(truths)) == 1 and set(truths) <= YES_OR_NO:
        said = yes_or_no(prediction) or restated(question, prediction)
        return Judgement(rating=None if said is None else float(said in truths), pred_is_idk=False, parse_ok=said is not None)
    if match == "contained":
        plain = normalise(prediction)
        return Judgement(rating=float(any(w and f" {w} " in f" {plain} " for w in truths)), pred_is_idk=False)
    rating = rate_open(question, references, prediction, tolerance, only_whole_reply=match == "exact")
    return Judgement(rating=rating, pred_is_idk=False, parse_ok=rating is not None)


def _is_negative_answer(reply: str, references: Sequence[str]) -> bool:
    """Return true if a reply such as "nothing" is a reference answer, so no abstention."""
    return reply in NEGATIVE_ANSWERS and reply in references


def rate_open(question: str, references: Sequence[str], reply: str, tolerance: float = 0.0, only_whole_reply: bool = False) -> float | None:
    """Return 1 if a reply is or states a reference, 0 if not, None if ambiguous.

    Args:
        question: what was asked.
        references: right answers, of which the part behind "####" counts.
        reply: the reply as it came.
        tolerance: the largest relative difference of two equal numbers.
        only_whole_reply: the reply has to be the answer and no more.
    """
    references = [reference.rpartition("####")[2].strip() for reference in references]
    if comparison_text(reply) in map(comparison_text, references):
        return 1.0
    numbers = [number for number in map(read_quantity, references) if number is not None]
    said = read_quantity(reply) if numbers else None
    if said is not None and any(equal(number, said, tolerance) for number in numbers):
        return 1.0
    if only_whole_reply or (said is not None and len(numbers) == len(references)):
        return 0.0
    texts = [words_of_reference(reference) for reference in references if read_quantity(reference) is None]
    ratings = [rate_number(question, numbers, reply, tolerance)] if numbers else []
    ratings += [rate_text(question, texts, reply)] if any(texts) else []
    return 1.0 if 1.0 in ratings else None if None in ratings else 0.0
