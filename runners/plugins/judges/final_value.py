"""Judge of final numbers and expressions. MathVista: Lu et al., 2024; GSM8K: Cobbe et al., 2021; Math-Verify compares expressions."""

import re
from collections.abc import Sequence
from typing import Annotated

from annotated_types import Ge

from qualm.registry.plugins.extras import install_line
from qualm.runners.contracts.judges import JudgeError, Judgement
from qualm.runners.plugins.judges._final_number import rate_number
from qualm.runners.plugins.judges._quantities import read_quantity
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.plugins.judges._stated_text import rate_text, words_of_reference
from qualm.runners.plugins.judges._statements import final_statement, visible_reply
from qualm.runners.scoring.answer_text import comparison_text

_EXPRESSION = re.compile(r"[\\^=<>≤≥+*/(){}√π∞]")
CITES = ["lu2024mathvista", "cobbe2021training"]


def final_value(
    questions: list[str],
    references: list[list[str]],
    predictions: list[str],
    *,
    tolerance: Annotated[float, Ge(0)] = 0.0,
    rounded: bool = False,
) -> list[Judgement]:
    r"""Judge each reply 1 if its final number or expression is right, else 0; None if unclear.

    The rating is 1 or 0.
    The answer is what stands in `\boxed{}`, behind `####` or behind "the answer is"; else what the reply concludes ("so 4 + 3 = 7"),
    prints in bold or states first. Bounds ("more than 7"), numbers of the question and what a correction replaces are no answers. Numbers
    are equal by value and unit, as in `rules`. Where two readings remain the reply is unscored.

    A reference with operators or LaTeX, such as `\frac{\sqrt{3}}{2}`, is compared as an expression by Math-Verify, which the extra `math`
    installs; words are read as by `rules`. Of a reference such as GSM8K's, only what follows `####` counts.

    Args:
        tolerance: the largest difference of two equal numbers, relative to the reference: 0.05 as in ChartQA.
        rounded: round the answer to the decimals of the reference, as MathVista does.
    """
    return [_judge(*row, tolerance, rounded) for row in zip(questions, references, predictions, strict=True)]


def _judge(question: str, references: list[str], prediction: str, tolerance: float, rounded: bool) -> Judgement:
    declines = is_refusal(prediction, question)
    if not references or declines:
        return Judgement(rating=float(declines and not references), pred_is_idk=declines)
    finals = [reference.rpartition("####")[2].strip() for reference in references]
    numbers = [number for number in map(read_quantity, finals) if number is not None]
    ratings = [rate_number(question, numbers, prediction, tolerance, rounded)] if numbers else []
    others = [final for final in finals if read_quantity(final) is None]
    if expressions := [final for final in others if _EXPRESSION.search(final)]:
        ratings.append(rate_expression(expressions, prediction))
    if words := [words_of_reference(final) for final in others if not _EXPRESSION.search(final)]:
        ratings.append(rate_text(question, words, prediction))
    rating = 1.0 if 1.0 in ratings else None if None in ratings else 0.0
    return Judgement(rating=rating, pred_is_idk=False, parse_ok=rating is not None)


def rate_expression(references: Sequence[str], reply: str) -> float | None:
    """Return 1 if a reply's final expression equals a reference, 0 if not, None if unreadable.

    Raises:
        JudgeError: Math-Verify is not installed.
    """
    try:
        from math_verify import parse, verify
        from math_verify.errors import TimeoutException
    except ModuleNotFoundError as error:
        raise JudgeError(f"judge final_value: a reference is an expression, which Math-Verify compares: {install_line('math')}") from error
    text = visible_reply(reply)
    said = final_statement(text) or text
    if comparison_text(said) in map(comparison_text, references):
        return 1.0
    try:
        rights = [parsed for reference in references if (parsed := parse(_in_dollars(reference), raise_on_error=True))]
        answer = parse(_in_dollars(said) if said is not text else said, raise_on_error=True)
        if not rights or not answer:
            return None
        return float(any(verify(right, answer, raise_on_error=True) for right in rights))
    except (TimeoutException, ValueError, TypeError, RecursionError):
        return None


def _in_dollars(text: str) -> str:
    """Return a text between dollar signs, unchanged if it already has LaTeX delimiters."""
    return text if "$" in text or "\\(" in text or "\\[" in text else f"${text}$"
