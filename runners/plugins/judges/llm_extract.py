"""Judge that lets a language model extract the short answer. MathVista: Lu et al., 2024; BLINK: Fu et al., 2024.

The prompt is our own.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from annotated_types import Ge

from qualm.registry import option_label
from qualm.registry.plugins.registry import Chosen, Kind, PromptFile
from qualm.runners.contracts.judges import JudgeContext, Judgement
from qualm.runners.plugins.judges._rubric import replies
from qualm.runners.prompts.plain import clean_reply
from qualm.runners.scoring.apply_judge import Answered, judge, judge_ref

READS = ["open", "choices"]
DECIDES_ABSTENTIONS = True
ASKS = {"each": "answer"}
CITES = ["lu2024mathvista", "fu2024blink", "duan2024vlmevalkit"]
ASSETS = ["../../../specs/prompts/llm_extract.md"]
NO_OPTIONS = "none, the question is open"
_LABEL = re.compile(r"\A\W*(?:the )?(?:final |extracted )?answer(?: is)?\s*[:：]\s*", re.IGNORECASE)
_DECLINES, _NO_ANSWER = re.compile(r"\W*declines\W*", re.IGNORECASE), re.compile(r"\W*no[ _]answer\W*", re.IGNORECASE)


def llm_extract(
    context: JudgeContext,
    questions: list[str],
    references: list[list[str]],
    predictions: list[str],
    choices: list[list[str]] | None = None,
    *,
    by: Annotated[Chosen, Kind("generators")],
    then: Annotated[Chosen, Kind("judges")] = "rules",
    prompt: PromptFile | None = None,
    max_new_tokens: Annotated[int, Ge(1)] = 32,
) -> list[Judgement]:
    """Let a language model extract each short answer, and another judge rate it.

    The model sees the question, its options and the reply, never the references, so that it reads and does not grade. It may say that
    the reply declines, which is an abstention, or that it settles on no answer: then the reply is unscored with `parse_ok` false. Use
    it for what rules leave unread (`rules: {otherwise: {llm_extract: {by: ...}}}`), or alone for every reply, as MathVista does.

    Args:
        by: the model: `hf` or `openai`, with its parameters.
        then: the judge of the short answer.
        prompt: a file of yours in specs/prompts/, with `{question}`, `{options}` and `{answer}`, instead of our llm_extract.
        max_new_tokens: longest short answer.

    Raises:
        JudgeError: the model or server fails, or the prompt is wrong. What was extracted is kept.
    """
    options: list[list[str]] = choices if choices is not None else [[] for _ in questions]
    rows = list(zip(questions, predictions, options, strict=True))
    fields = [{"question": q, "options": _listed(c), "answer": p} if p.strip() else None for q, p, c in rows]
    extracted = replies(context, "llm_extract", by, fields, prompt, max_new_tokens)
    judgements = [_without_answer(refs, text) for refs, text in zip(references, extracted, strict=True)]
    short = {i: _short(text) for i, text in enumerate(extracted) if text is not None and judgements[i] is None}
    items = [Answered(questions[i], tuple(references[i]), text, choices=tuple(options[i])) for i, text in short.items()]
    judged = (
        dict(zip(short, judge(judge_ref(then, "llm_extract"), items, context.settings, context.counters), strict=True)) if items else {}
    )
    return [one if one is not None else replace(judged[i], reply=extracted[i]) for i, one in enumerate(judgements)]


def _listed(choices: Sequence[str]) -> str:
    return "\n" + "\n".join(f"{option_label(i)}. {choice}" for i, choice in enumerate(choices)) if choices else NO_OPTIONS


def _short(text: str) -> str:
    return _LABEL.sub("", clean_reply(text)).strip()


def _without_answer(references: Sequence[str], text: str | None) -> Judgement | None:
    """Return the judgement if the extracted text is "declines" or no answer, else None."""
    if text is not None and _DECLINES.fullmatch(_short(text)):
        return Judgement(float(not references), True, text)
    if text is None or not _short(text) or _NO_ANSWER.fullmatch(_short(text)):
        return Judgement(None, False, text, parse_ok=False)
    return None
