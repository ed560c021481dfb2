"""Judge of plain equality, as evaluators of short answers have it. GQA: Hudson, Manning, 2019; TDIUC: Kafle, Kanan, 2017."""

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._refusals import is_refusal

CITES = ["hudson2019gqa", "kafle2017analysis"]


def exact_match(
    questions: list[str], references: list[list[str]], predictions: list[str], *, period: bool = False, case: bool = False
) -> list[Judgement]:
    """Judge 1 if an answer equals a reference, or abstains where there is none; else 0.

    The rating is 1 or 0.
    "The cat" and "2" are wrong where "cat" or "two" is right: what the official evaluators of GQA and TDIUC do. The judge `rules` forgives
    such differences. Without references declining is right, in whatever words.

    Args:
        period: forgive one period at the end, which models that speak in sentences put there; the evaluators do not.
        case: letter case counts: "Yes" is not "yes".
    """
    return [_judge(*row, period, case) for row in zip(questions, references, predictions, strict=True)]


def _judge(question: str, references: list[str], prediction: str, period: bool, case: bool) -> Judgement:
    declines = is_refusal(prediction, question)
    if not references:
        return Judgement(rating=float(declines), pred_is_idk=declines)
    answer, *truths = (text.strip() if case else text.strip().lower() for text in (prediction, *references))
    return Judgement(rating=float(answer in truths or (period and answer.removesuffix(".").rstrip() in truths)), pred_is_idk=declines)
