"""A judge of fixed rules: normalised match with a reference, the option a reply names, refusals by their usual phrases. Free and fast.

It is strict: a right answer in other words counts as wrong. For answers of a word or two that is what one wants; for
sentences use a model as the judge.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from qualm.registry.plugins.rule import Chosen, Kind
from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._choices import judged, read
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.plugins.judges._yes_no import yes_or_no
from qualm.runners.scoring.answer_text import normalise

READS = ["open", "choices"]
YES_OR_NO = {"yes", "no"}


def rules(
    questions: list[str],
    references: list[list[str]],
    predictions: list[str],
    choices: list[list[str]] | None = None,
    *,
    match: Literal["exact", "contained"] = "exact",
    otherwise: Annotated[Chosen, Kind("judges")] | None = None,
) -> list[Judgement]:
    """Right if the answer equals a reference up to case, punctuation, articles and number words, or names the right option.

    Rating 1 or 0, never half. Where the references are yes or no, the answer may be a sentence, reasoning, or informal, in some twenty
    languages: "Not that I can see", "Yes. Hmm, actually: No."; one that says neither is unscored. Refusals are found by their phrases,
    which see the question too: "there is no car" declines to say what color the car is, and answers whether there is one. "Not sure,
    but I think blue" is an answer. On the held-out part of our labelled set (tests/data/refusals.csv) 97% are classified correctly. A
    multiple-choice question that was answered in words is read as by `option_match`; what names no option, or several, is unscored.

    Args:
        match: `exact`: the whole answer is the reference. `contained`: the reference's words occur in it, in a row.
        otherwise: A judge for replies that are unscored, `llm_extract: {by: ...}`. Whoever applies the judge asks it
            (`qualm.runners.scoring.apply_judge`).
    """
    options: list[list[str]] = choices if choices is not None else [[] for _ in questions]
    return [_judge(*row, match) for row in zip(questions, references, predictions, options, strict=True)]


def _judge(question: str, references: list[str], prediction: str, choices: Sequence[str], match: str) -> Judgement:
    if choices:
        return judged(question, references, prediction, choices, read)
    declines = is_refusal(prediction, question)
    if not references or declines:
        return Judgement(rating=float(declines and not references), pred_is_idk=declines)
    truths = [normalise(r) for r in references]
    plain = normalise(prediction)
    if len(set(truths)) == 1 and set(truths) <= YES_OR_NO:
        said = yes_or_no(prediction)
        return Judgement(rating=None if said is None else float(said in truths), pred_is_idk=False, parse_ok=said is not None)
    if match == "exact":
        return Judgement(rating=float(plain in truths), pred_is_idk=False)
    return Judgement(rating=float(any(w and f" {w} " in f" {plain} " for w in truths)), pred_is_idk=False)
