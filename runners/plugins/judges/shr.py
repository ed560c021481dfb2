"""Judge of hallucinated sentences in descriptions. SHR: Zhao, Wang, Ouyang et al., 2023 (HA-DPO). The prompt is our own."""

import re
from typing import Annotated

from annotated_types import Ge

from qualm.registry.plugins.registry import Chosen, Kind, PromptFile
from qualm.runners.contracts.judges import JudgeContext, Judgement
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.plugins.judges._rubric import replies

CITES = ["zhao2023beyond"]
MARKS = ["hallucinated", "correct", "unclear", "sentences"]
ASSETS = ["../../../specs/prompts/shr.md"]
HALLUCINATED, CORRECT, UNCLEAR = "hallucination", "correct", "cannot judge"
CLASSES = (HALLUCINATED, CORRECT, UNCLEAR)
_LINE = re.compile(r"^\W*(\d+)\s*[.):]\s*(.*)$", re.MULTILINE)


def shr(
    context: JudgeContext,
    questions: list[str],
    references: list[list[str]],
    predictions: list[str],
    evidence: list[str],
    *,
    by: Annotated[Chosen, Kind("generators")],
    prompt: PromptFile | None = None,
    longest_prompt: Annotated[int, Ge(1)] = 15_000,
    max_new_tokens: Annotated[int, Ge(1)] = 800,
) -> list[Judgement]:
    """Judge each description by the share of its sentences without hallucination, by a model.

    Labels are hallucination, correct, or impossible to judge.
    The references are facts about the image, the evidence is what people wrote of its regions. Marks: `sentences` and how many of
    them are `hallucinated`, `correct` and `unclear`; the rating is the share of sentences that are no hallucination. A sentence that is
    called something else is left out. Where the judgements are not one to a sentence, in order, nothing of that description counts: it is
    unscored. All of that as in the official code.

    Args:
        by: the model: `hf` or `openai`, with its parameters.
        prompt: a file of yours in specs/prompts/, with `{regions}`, `{facts}` and `{sentences}`, instead of our shr.
        longest_prompt: Characters; longer ones are not asked and unscored, and counted, as in the official code.
        max_new_tokens: longest reply.

    Raises:
        JudgeError: the model or server fails, or the prompt is wrong. What was judged is kept.
    """
    rows = list(zip(questions, references, predictions, evidence, strict=True))
    sentence_lists = [sentences(p) for _, _, p, _ in rows]
    fields = [
        _places(refs, regions, parts) if refs and parts else None for (_, refs, _, regions), parts in zip(rows, sentence_lists, strict=True)
    ]
    judge_replies = replies(context, "shr", by, fields, prompt, max_new_tokens, longest_prompt)
    return [
        _judgement(q, refs, p, len(parts), reply) for (q, refs, p, _), parts, reply in zip(rows, sentence_lists, judge_replies, strict=True)
    ]


def sentences(description: str) -> list[str]:
    """Split a description at full stops; drop sentences that are part of an earlier one.

    >>> sentences("A dog sits. A cat runs. A dog sits. A cat. ")
    ['A dog sits', 'A cat runs']
    """
    parts: list[str] = []
    for part in (p.strip() for p in description.split(".")):
        if part and not any(part in earlier for earlier in parts):
            parts.append(part)
    return parts


def read_verdicts(reply: str | None, n: int) -> list[str] | None:
    r"""Return each numbered line's text before the colon; None unless they are numbered 1 to n.

    >>> read_verdicts("Judgement:\n1. Correct: yes\n2. hallucination: no cat", 2), read_verdicts("1. correct: yes", 2)
    (['correct', 'hallucination'], None)
    """
    lines = _LINE.findall(reply or "")
    names = [line.partition(":")[0].strip(" *_").lower() for _, line in lines]
    return names if [int(number) for number, _ in lines] == list(range(1, n + 1)) else None


def _places(references: list[str], evidence: str, parts: list[str]) -> dict[str, str]:
    numbered = "\n".join(f"{i}. {sentence}." for i, sentence in enumerate(parts, 1))
    return {"regions": evidence or "not known", "facts": "\n".join(references), "sentences": numbered}


def _judgement(question: str, references: list[str], prediction: str, n: int, reply: str | None) -> Judgement:
    declines = is_refusal(prediction, question)
    if not references:
        return Judgement(float(declines), declines)
    made_up, right, unclear = (((read_verdicts(reply, n) if n else None) or []).count(name) for name in CLASSES)
    total = made_up + right + unclear
    if not total:
        return Judgement(None, declines, reply, parse_ok=False)
    counted = {"hallucinated": made_up, "correct": right, "unclear": unclear, "sentences": total}
    return Judgement(1 - made_up / total, declines, reply, marks={name: float(count) for name, count in counted.items()})
