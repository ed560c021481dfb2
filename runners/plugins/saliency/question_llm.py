"""Saliency by a language model, which reads question and answer and names the object on which the answer depends.

After CertainlyUncertain's appendix F.2; the prompt, in specs/prompts/salient_object.md, is in our own words.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Le

from qualm.registry.plugins.registry import Chosen, Kind, PromptFile
from qualm.runners.contracts.generators import GeneratorError, NoPairError, chat
from qualm.runners.contracts.pairs import PairContext, PairError
from qualm.runners.contracts.saliency import Row, Target, Thing, answer_of
from qualm.runners.inference.generator import open_generator
from qualm.runners.plugins.generators._rounds import GenerationRounds, ask_in_rounds, check_dropped_share
from qualm.runners.prompts.bare import content_lines, strip_decoration
from qualm.runners.prompts.labelled import NONE, SEVERAL, Form, UnreadableReplyError, read_labelled
from qualm.runners.prompts.plain import clean_reply
from qualm.runners.prompts.templates import PromptError, fill_placeholders, read_prompt
from qualm.runners.scoring.answer_text import normalise

ASSETS = ["../../../specs/prompts/salient_object.md"]
ASKS = {"each": "question", "text": "answer"}
"""Requests to a server: see `qualm.compiler.project.text_prices`."""
BATCH = 256
"""Questions asked about at a time."""
NOTHING = "na"
NO_NAME = (NOTHING, "n/a", "none")
MAX_WORDS = 16
"""Greatest number of words of a name."""

_CALLED = ("relevant object", "most relevant object", "salient object", "relevant thing", "object")
_FORM = Form({"name": (*_CALLED, *(f"{how}{name}{verb}" for name in _CALLED for how in ("", "the ") for verb in ("", " is")))})
_SENTENCE = re.compile(
    r"(?:sure|certainly|okay|ok)?[,.!]?\s*the (?:(?:most|main|relevant|salient) )*(?:object|thing)(?: in question)? is:? "
    r"(?P<name>[^.?!]+)\.?",
    re.IGNORECASE,
)
_NAME_ALONE = re.compile(r"[^\W\d_][\w'’-]*(?: [\w'’-]+){0,3}")
_NO_PART_OF_A_NAME = frozenset(
    ("there", "no", "not", "i", "it", "its", "it's", "this", "that", "these", "those", "sorry", "cannot", "can't", "can", "yes", "sure",
     "certainly", "okay", "nothing", "unclear", "unknown", "unanswerable", "impossible", "is", "are", "was", "were", "be", "has", "have",
     "does", "do", "and", "or")
)  # fmt: skip
"""Words of short replies that name no object."""
_REMARK = re.compile(r"\W*(?:reason|explanation|note|because|the|this|it)", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the|a|an) +", re.IGNORECASE)


def question_llm(
    context: PairContext,
    folder: Path,
    rows: Sequence[Row],
    *,
    generator: Annotated[Chosen, Kind("generators")],
    prompt: PromptFile | None = None,
    attempts: Annotated[int, Ge(1), Le(1000)] = 2,
    most_dropped: Annotated[float, Ge(0), Le(1)] = 1.0,
    temperature: Annotated[float, Ge(0), Le(100)] = 0.7,
    max_new_tokens: Annotated[int, Ge(1)] = 60,
) -> Iterator[Target]:
    """Yield a Target per row whose object a language model names from question and answer.

    Args:
        folder: not used.
        rows: samples with their answers.
        generator: `hf` or `openai`.
        prompt: name of your file in specs/prompts/, with `{question}` and `{answer}` in it; our own by default,
            `paper/salient_object` for CertainlyUncertain's, which does not exclude questions whether something is there or how many.
        attempts: tries per question, each with its own seed; then it is dropped and counted by its last reason.
        most_dropped: greatest share of dropped questions; beyond it the stage fails.
        temperature: of the model; a second attempt needs it above 0 to differ.
        max_new_tokens: greatest length of a reply.

    If the name contains the answer ("red car" of "What color is the car?"), the detector is asked for all of it, and the
    abstention speaks of the remaining words.

    Dropped and counted: "no single thing" where the model says na, "no part found" and the like, "reply cut off", "no answer".

    Raises:
        PairError: the generator fails, or the prompt lacks a placeholder.
    """
    try:
        asker = open_generator(generator, context.settings)
        text = read_prompt("salient_object", prompt)
        answered = iter([(row, answer) for row in rows for answer in _answers(context, row)])
        while batch := list(islice(answered, BATCH)):
            values = {row["sample_id"]: {"question": row["question"], "answer": answer} for row, answer in batch}
            chats = {key: chat(fill_placeholders(text, v, prompt or "specs/prompts/salient_object.md")) for key, v in values.items()}
            names = ask_in_rounds(
                context,
                asker,
                chats,
                lambda _, reply: read_name(reply),
                GenerationRounds(attempts, temperature, max_new_tokens, ("relevant_object",)),
            )
            for row, answer in batch:
                name = names.get(row["sample_id"])
                if name == NOTHING:
                    context.drop("no single thing")
                elif name is not None:
                    yield Target(row["sample_id"], row, row["question"], answer, _make_thing(name, answer))
        check_dropped_share(asker, most_dropped)
    except (GeneratorError, PromptError) as error:
        raise PairError(f"saliency question_llm: {error}") from error


def read_name(reply: str) -> str:
    r"""Return a reply's object name without article and quotes, or "na"; else NoPairError.

    >>> read_name("Relevant object: the red car.")
    'red car'
    >>> read_name("na"), read_name("Relevant object: N/A\nReasoning: it is about the whole image")
    ('na', 'na')

    Args:
        reply: a line `Relevant object: ...` in any style, or JSON, perhaps with reasoning around it; or a name or `na` alone.

    Raises:
        NoPairError: those of `qualm.runners.prompts.labelled`, "empty part", "name too long".
    """
    first, *rest = content_lines(reply) or [""]
    if _bare(first) in NO_NAME:
        if rest and not _REMARK.match(rest[0]):
            raise NoPairError(SEVERAL)
        return NOTHING
    try:
        name = _bare(read_labelled(reply, _FORM)["name"])
    except UnreadableReplyError as why:
        if str(why) != NONE or not (name := _one_line_name(reply)):
            raise NoPairError(str(why)) from None
    if name in NO_NAME:
        return NOTHING
    if not normalise(name):
        raise NoPairError("empty part")
    if len(name.split()) > MAX_WORDS:
        raise NoPairError("name too long")
    return name


def _one_line_name(reply: str) -> str:
    """Return the name in a one-line reply; "" for any other reply."""
    rows = content_lines(clean_reply(reply))
    text = _bare(rows[0].strip("|[]{} ")) if len(rows) == 1 else ""
    if sentence := _SENTENCE.fullmatch(text) or _SENTENCE.fullmatch(rows[0] if len(rows) == 1 else ""):
        text = _bare(sentence["name"])
    known = bool(_NAME_ALONE.fullmatch(text)) and not _NO_PART_OF_A_NAME & set(text.casefold().split())
    return text if known or text in NO_NAME else ""


def _bare(name: str) -> str:
    plain = strip_decoration(strip_decoration(name).rstrip("."))
    plain = _ARTICLE.sub("", plain)
    return plain.casefold() if plain.casefold() in NO_NAME else plain


def _make_thing(name: str, answer: str) -> Thing:
    answer_words = set(normalise(answer).split())
    left = " ".join(word for word in name.split() if normalise(word) not in answer_words)
    noun = left if left and normalise(left) else name
    return Thing(noun, noun, query=name)


def _answers(context: PairContext, row: Row) -> list[str]:
    answer = answer_of(row)
    if answer is None:
        context.drop("no answer")
    return [] if answer is None else [answer]
