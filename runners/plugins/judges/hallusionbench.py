"""Correct, incorrect or unclear, judged by a language model as in HallusionBench. Guan, Liu, Wu et al., 2024 (CVPR).

The prompt is our own.
"""

from typing import Annotated, Literal

from annotated_types import Ge

from qualm.registry.plugins.registry import Chosen, Kind, PromptFile
from qualm.runners.contracts.judges import JudgeContext, Judgement
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.plugins.judges._rubric import replies

CITES = ["guan2024hallusionbench"]
MARKS = ["code"]
ASSETS = ["../../../specs/prompts/hallusionbench.md"]
UNCLEAR = "unclear"
"""Reference of a question whose right answer is not to know: those without their figure."""
SHORT = ("yes", "no", UNCLEAR)
INCORRECT, CORRECT, OPEN = 0.0, 1.0, 2.0
"""Codes of the official result files."""


def hallusionbench(
    context: JudgeContext,
    questions: list[str],
    references: list[list[str]],
    predictions: list[str],
    *,
    by: Annotated[Chosen, Kind("generators")],
    on_failure: Literal["unscored", "unclear"] = "unscored",
    prompt: PromptFile | None = None,
    max_new_tokens: Annotated[int, Ge(1)] = 16,
) -> list[Judgement]:
    """Judge each answer 1 if a language model finds it correct, 0 if incorrect or unclear.

    The answer is compared with a reference sentence.
    "incorrect" anywhere in the reply is read first, since "correct" is part of it. Correct is right; unclear is right only where
    a reference is "unclear", which the adapter `hallusionbench` gives to the questions that are asked without their figure. The
    mark `code` is 0 incorrect, 1 correct, 2 unclear. Questions without references are right where they are declined.

    Args:
        by: the model: `hf` or `openai`, with its parameters.
        on_failure: a reply with none of the three words is `unscored`, or `unclear`, as in the official code.
        prompt: a file of yours in specs/prompts/, with `{question}`, `{reference}` and `{answer}`, instead of our hallusionbench.
        max_new_tokens: longest reply.

    Raises:
        JudgeError: the model or server fails, or the prompt is wrong. What was judged is kept.
    """
    rows = list(zip(questions, references, predictions, strict=True))
    fields = [{"question": q, "reference": _sentence(r), "answer": p} if r else None for q, r, p in rows]
    judge_replies = replies(context, "hallusionbench", by, fields, prompt, max_new_tokens)
    return [_judgement(*row, reply, on_failure) for row, reply in zip(rows, judge_replies, strict=True)]


def _sentence(references: list[str]) -> str:
    """Return the reference sentences, joined; without any, the reference "yes" or "no"."""
    sentences = [r for r in references if r.casefold() not in SHORT]
    return " ".join(sentences or [r for r in references if r.casefold() != UNCLEAR])


def rate_code(reply: str | None, on_failure: str) -> float | None:
    """Return 0 incorrect, 1 correct, 2 unclear; else None, or 2 by `on_failure` for a text.

    >>> [rate_code(text, "unscored") for text in ("Incorrect.", "It is correct", "unclear", "well", None)]
    [0.0, 1.0, 2.0, None, None]
    """
    text = (reply or "").lower()
    if "incorrect" in text:
        return INCORRECT
    if "correct" in text:
        return CORRECT
    return OPEN if UNCLEAR in text or (on_failure == UNCLEAR and reply is not None) else None


def _judgement(question: str, references: list[str], prediction: str, reply: str | None, on_failure: str) -> Judgement:
    declines = is_refusal(prediction, question)
    if not references:
        return Judgement(float(declines), declines)
    verdict = rate_code(reply, on_failure)
    if verdict is None:
        return Judgement(None, declines, reply, parse_ok=False)
    right = verdict == CORRECT or (verdict == OPEN and UNCLEAR in references)
    return Judgement(float(right), declines, reply, marks={"code": verdict})
