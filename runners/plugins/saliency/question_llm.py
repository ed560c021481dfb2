"""Saliency by a language model: it reads the question and its answer, and names the thing on which the answer depends.

After CertainlyUncertain's appendix F.2; the words of the prompt, in specs/prompts/salient_object.md, are our own.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

from annotated_types import Ge

from qualm.registry.plugins.rule import Chosen, Kind, Prompt
from qualm.runners.contracts.generators import GeneratorError, UnusableReply, chat
from qualm.runners.contracts.pairs import PairContext, PairError
from qualm.runners.contracts.saliency import Row, Target, Thing, answer_of
from qualm.runners.inference.generator import open_generator
from qualm.runners.plugins.generators._rounds import in_rounds
from qualm.runners.prompts.bare import bare, lines
from qualm.runners.prompts.templates import PromptError, fill, read_prompt
from qualm.runners.scoring.answer_text import normalise

ASSETS = ["../../../specs/prompts/salient_object.md"]
BATCH = 256
"""Questions asked about at a time."""
NOTHING = "na"
LONGEST = 16
"""Words of a name; more is no noun phrase."""

_LINE = re.compile(r"^(?:\*\*)?relevant object(?:\*\*)?:(?:\*\*)? *(.*)$", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the|a|an) +", re.IGNORECASE)


def question_llm(
    context: PairContext,
    folder: Path,
    rows: Sequence[Row],
    *,
    generator: Annotated[Chosen, Kind("generators")],
    prompt: Prompt | None = None,
    retries: Annotated[int, Ge(0)] = 3,
    temperature: Annotated[float, Ge(0)] = 0.7,
    max_new_tokens: Annotated[int, Ge(1)] = 60,
) -> Iterator[Target]:
    """Any data set with questions and answers: a language model names the thing that must go; no picture is shown to it.

    Args:
        folder: not used.
        rows: samples with their answers.
        generator: `hf` or `openai`.
        prompt: name of a file of yours in specs/prompts/, with `{question}` and `{answer}` in it; our own unless given.
        retries: further tries, with other seeds, where a reply cannot be read.
        temperature: of the model; retries need it above 0 to differ.
        max_new_tokens: longest reply.

    Where the name says the answer ("red car" of "What color is the car?"), the detector is asked for all of it, and the answer
    that declines speaks of the rest.

    Dropped and counted: "no single thing" where the model says na, "malformed reply", "reply cut off", "no answer".

    Raises:
        PairError: the generator fails, or the prompt lacks a place.
    """
    try:
        asker = open_generator(generator, context.settings)
        text = read_prompt("salient_object", prompt)
        answered = iter([(row, answer) for row in rows for answer in _answers(context, row)])
        while batch := list(islice(answered, BATCH)):
            values = {row["sample_id"]: {"question": row["question"], "answer": answer} for row, answer in batch}
            chats = {key: chat(fill(text, v, prompt or "specs/prompts/salient_object.md")) for key, v in values.items()}
            names = in_rounds(
                context,
                asker,
                chats,
                lambda _, reply: read_name(reply),
                retries=retries,
                temperature=temperature,
                max_new_tokens=max_new_tokens,
            )
            for row, answer in batch:
                name = names.get(row["sample_id"])
                if name == NOTHING:
                    context.drop("no single thing")
                elif name is not None:
                    yield Target(row["sample_id"], row, row["question"], answer, _thing(name, answer))
    except (GeneratorError, PromptError) as error:
        raise PairError(f"saliency question_llm: {error}") from error


def read_name(reply: str) -> str:
    """The name in a reply, without article, quotes and period; `na` where there is none.

    >>> read_name("Relevant object: the red car.")
    'red car'
    >>> read_name("na"), read_name("Relevant object: N/A\\nReasoning: it is about the whole picture")
    ('na', 'na')

    Args:
        reply: one line `Relevant object: ...`, perhaps with lines of reasoning after it; or `na` alone.

    Raises:
        UnusableReply: "malformed reply".
    """
    first, *rest = lines(reply) or [""]
    match = _LINE.match(first)
    if match is None and (_bare(first) not in (NOTHING, "n/a") or rest):
        raise UnusableReply("malformed reply")
    if rest and not rest[0].casefold().lstrip("*").startswith("reasoning"):
        raise UnusableReply("malformed reply")
    name = _bare(match[1] if match else first)
    if name in (NOTHING, "n/a"):
        return NOTHING
    if not normalise(name) or len(name.split()) > LONGEST:
        raise UnusableReply("malformed reply")
    return name


def _bare(name: str) -> str:
    plain = bare(bare(name).rstrip("."))
    plain = _ARTICLE.sub("", plain)
    return plain.casefold() if plain.casefold() in (NOTHING, "n/a") else plain


def _thing(name: str, answer: str) -> Thing:
    """The thing, called in answers by what is left of its name without the answer's words."""
    answer_words = set(normalise(answer).split())
    left = " ".join(word for word in name.split() if normalise(word) not in answer_words)
    noun = left if left and normalise(left) else name
    return Thing(noun, noun, query=name)


def _answers(context: PairContext, row: Row) -> list[str]:
    answer = answer_of(row)
    if answer is None:
        context.drop("no answer")
    return [] if answer is None else [answer]
