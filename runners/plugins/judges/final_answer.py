"""Judge of the yes or no that ends a long reply."""

from typing import Annotated

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.plugins.judges._yes_no import restated, yes_or_no
from qualm.runners.scoring.answer_text import normalise


def final_answer(
    questions: list[str],
    references: list[list[str]],
    predictions: list[str],
    *,
    otherwise: Annotated[Chosen, Kind("judges")] | None = None,
) -> list[Judgement]:
    """Judge each reply 1 if its final "yes" or "no" is a reference, else 0; None if unclear.

    What it announces (`Answer: yes`, `**Final answer:** No`), corrects ("Yes. Hmm, actually: No.") or concludes ("so no") counts before
    its first word, and this before its only one of the two words. Informal and foreign forms are read ("nope", "Not that I can see",
    "はい"). A reply that says both and settles on neither ("Yes/No"), or says none, is unscored with `parse_ok` false, never guessed; so
    is every question whose references are not yes or no.

    Args:
        otherwise: A judge for replies that are unscored, `llm_extract: {by: ...}`. Whoever applies the judge asks it
            (`qualm.runners.scoring.apply_judge`).
    """
    return [_judge(*row) for row in zip(questions, references, predictions, strict=True)]


def _judge(question: str, references: list[str], prediction: str) -> Judgement:
    declines = is_refusal(prediction, question)
    truths = {normalise(r) for r in references} & {"yes", "no"}
    if not references:
        return Judgement(rating=float(declines), pred_is_idk=declines)
    reading = yes_or_no(prediction) or restated(question, prediction)
    if reading is None or not truths:
        return Judgement(rating=None, pred_is_idk=declines, parse_ok=False)
    return Judgement(rating=float(reading in truths), pred_is_idk=False)
