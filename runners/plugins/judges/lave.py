"""Judge that asks a language model in two stages: whether an answer abstains, and if not, how right it is.

LAVE: Oscar Mañas, Benno Krojer, Aishwarya Agrawal, "Improving Automatic VQA Evaluation Using Large Language Models", AAAI 2024.
With the stage on refusals and with the rating first: Khyathi Raghavi Chandu, Linjie Li et al., "CertainlyUncertain", 2025.
The prompts are our own.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from annotated_types import Ge

from qualm.registry.plugins.registry import Chosen, Kind, PromptFile
from qualm.runners.contracts.generators import GeneratorError, Reply, chat
from qualm.runners.contracts.judges import JudgeContext, JudgeError, Judgement
from qualm.runners.inference.generator import CachedGenerator, open_generator
from qualm.runners.prompts.plain import clean_reply
from qualm.runners.prompts.templates import PromptError, fill_placeholders, read_prompt

ASKS = {"each": "answer", "requests": 2}
"""Requests per answer: abstention, then rating; see `qualm.compiler.project.text_prices`."""
CITES = ["manas2024improving", "chandu2025certainlyuncertain"]
DECIDES_ABSTENTIONS = True

ASSETS = [
    "../../../specs/prompts/lave_refusal.md",
    "../../../specs/prompts/lave_rating_first.md",
    "../../../specs/prompts/lave_rationale_first.md",
]
YES_OR_NO = "The question asks for yes or no: a candidate that commits to neither, in whatever words, is rated 1."
RARE = 0.25
"""Share of the most frequent reference's count up to which a reference is dropped, as in LAVE's code."""


def lave(
    context: JudgeContext,
    questions: list[str],
    references: list[list[str]],
    predictions: list[str],
    *,
    by: Annotated[Chosen, Kind("generators")],
    order: Literal["rating_first", "rationale_first"] = "rating_first",
    on_failure: Literal["unscored", "half"] = "unscored",
    refusal_prompt: PromptFile | None = None,
    rating_prompt: PromptFile | None = None,
    max_new_tokens: Annotated[int, Ge(1)] = 100,
) -> list[Judgement]:
    """Judge each answer by a language model: abstention, or else a rating of 0, 0.5 or 1.

    The rating compares the answer with the references: 1 to 3 becomes 0, 0.5 or 1.

    Args:
        by: the model: `hf` or `openai`, with its parameters.
        order: `rating_first`: rating, then rationale, as CertainlyUncertain asks. `rationale_first`: the other way round, as LAVE does.
        on_failure: a rating that cannot be read is `unscored`, or `half` right, as LAVE's own code has it. Whether an answer declines is
            never guessed: where that cannot be read the answer is unscored either way.
        refusal_prompt: a file of yours in specs/prompts/, with `{question}` and `{answer}`, instead of our lave_refusal;
            `paper/lave_refusal` for CertainlyUncertain's.
        rating_prompt: likewise, with `{question}`, `{references}` and `{answer}`, instead of our prompt of this order;
            `paper/lave_rating_first` for CertainlyUncertain's, which shows no demonstrations, as ours does not.
        max_new_tokens: longest reply; the rating first needs few.

    References given at most a quarter as often as the most common one are left out; the rest are sorted and quoted. If the most common one
    is yes or no, `{rule}` asks the model to say one of them; a prompt without that place, such as CertainlyUncertain's, does not.

    Raises:
        JudgeError: the model or server fails, or a prompt is wrong. What was judged is kept.
    """
    try:
        generator = open_generator(by, context.settings)
        ask = _NumberReader(generator, max_new_tokens)
        declines = ask.numbers(_refusal_prompts(questions, predictions, refusal_prompt), (0, 1), first=True)
        rated = [i for i, (refusal, _) in enumerate(declines) if refusal == 0 and references[i]]
        text, where = read_prompt(f"lave_{order}", rating_prompt), rating_prompt or f"lave_{order}.md"
        omitted = set() if "{rule}" in text else {"rule"}
        fields = [_fields(questions[i], references[i], predictions[i]) for i in rated]
        prompts = [fill_placeholders(text, {name: value for name, value in each.items() if name not in omitted}, where) for each in fields]
        ratings = dict(zip(rated, ask.numbers(prompts, (1, 2, 3), first=order == "rating_first"), strict=True))
        context.counters.update(generator.counters)
    except (GeneratorError, PromptError) as error:
        raise JudgeError(f"judge lave: {error}") from error
    return [
        _judgement(refs, declined, ratings.get(i), on_failure) for i, (refs, declined) in enumerate(zip(references, declines, strict=True))
    ]


NumberReading = tuple[int | None, str]
"""Number in a reply (None if unreadable), and the reply."""


class _NumberReader:
    """Reader of numbers in a language model's replies to prompts."""

    def __init__(self, generator: CachedGenerator, max_new_tokens: int) -> None:
        self.generator, self.max_new_tokens = generator, max_new_tokens

    def numbers(self, prompts: Sequence[str], allowed: tuple[int, ...], first: bool) -> list[NumberReading]:
        replies = self.generator.complete([chat(p) for p in prompts], max_new_tokens=self.max_new_tokens) if prompts else []
        return [(read_rating(r.text, allowed, first), _text(r)) for r in replies]


def _text(reply: Reply) -> str:
    return reply.text if reply.text is not None else f"[no reply: {reply.error}]"


_HEAD = r"rating(?:\W*?\(\s*\d\s*[-–]\s*\d\s*\))?\W*?(?::|=|→|->)"
_RATING = re.compile(
    _HEAD + r"(?:(?:(?!\bnot\b)[^\d\n-])*|\s*)(?P<n>-?\d+)(?:\.0+(?!\d))?(?![.,]?\d|\s*[-–]\s*\d|\s*(?:or|to)\s+\d)", re.IGNORECASE
)


def read_rating(text: str | None, allowed: Sequence[int], first: bool) -> int | None:
    r"""Return the number after the first or last "Rating:"; None if missing or not `allowed`.

    Args:
        text: the reply; what was thought before it is not read.
        allowed: numbers of the scale.
        first: the first "Rating:" counts; otherwise the last, after the rationale.

    >>> read_rating("Rating: 3\nRationale: of 3 experts...", (1, 2, 3), True), read_rating("Rating: 1-3", (1, 2, 3), True)
    (3, None)
    >>> read_rating("<think>Rating: 1?</think>Rating: 3", (1, 2, 3), True)
    3
    """
    plain = clean_reply(unicodedata.normalize("NFKC", text or ""))
    parts = re.split(rf"(?={_HEAD})", plain, flags=re.IGNORECASE)[1:]
    if not parts:
        return None
    match = _RATING.match(parts[0 if first else -1])
    number = int(match["n"]) if match else None
    return number if number in allowed else None


def frequent_references(references: Sequence[str]) -> list[str]:
    """Return the sorted distinct references whose count exceeds RARE times the largest count."""
    counts = Counter(references)
    most = max(counts.values())
    return sorted(text for text, n in counts.items() if n > RARE * most)


def _refusal_prompts(questions: Sequence[str], predictions: Sequence[str], own_prompt: str | None) -> list[str]:
    text, where = read_prompt("lave_refusal", own_prompt), own_prompt or "lave_refusal.md"
    return [fill_placeholders(text, {"question": q, "answer": p}, where) for q, p in zip(questions, predictions, strict=True)]


def _fields(question: str, references: Sequence[str], prediction: str) -> Mapping[str, str]:
    commonest = Counter(r.strip().casefold() for r in references).most_common(1)[0][0]
    return {
        "question": question,
        "references": ", ".join(f'"{r}"' for r in frequent_references(references)),
        "answer": prediction,
        "rule": YES_OR_NO if commonest in ("yes", "no") else "",
    }


def _judgement(references: Sequence[str], declined: NumberReading, rated: NumberReading | None, on_failure: str) -> Judgement:
    number, reply = declined
    if number is None:
        return Judgement(None, None, reply, parse_ok=False)
    if not references or number == 1:
        return Judgement(float(number == 1 and not references), number == 1, reply)
    rating, more = rated if rated is not None else (None, "")
    replies = f"{reply}\n\n{more}"
    if rating is None:
        return Judgement(0.5 if on_failure == "half" else None, False, replies, parse_ok=False)
    return Judgement((rating - 1) / 2, False, replies)
