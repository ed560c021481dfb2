"""Pairs as a language model writes them: four lines, read strictly, and held to what a pair must be.

A reply that is not just so is worth another try and then nothing: a question that gives its answer away, or a refusal in the place of an
answer, would teach a model the wrong thing and nobody would see it.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from qualm.runners.contracts.generators import UnusableReply
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.prompts.bare import bare, is_doubtful, lines
from qualm.runners.scoring.answer_text import normalise

LABELS = ("Q1", "A1", "Q2", "A2")
NOT_GOOD = "not a good question"
_LINE = re.compile(r"^(?:\*\*)?(Q1|A1|Q2|A2)(?:\*\*)?:(?:\*\*)? *(.*)$", re.IGNORECASE)


@dataclass(frozen=True)
class Written:
    """A pair in words."""

    unanswerable: str
    refusal: str
    answerable: str
    answer: str


def read_pair(text: str | None, earlier: Collection[str] = ()) -> Written:
    """The pair in a reply.

    Args:
        text: `Q1: ... A1: ... Q2: ... A2: ...`, each on its own line and nothing else: Q1 cannot be answered, Q2 can.
        earlier: questions that were asked about this picture before, normalised.

    Raises:
        UnusableReply: with one of the reasons "no reply", "not a good question", "malformed reply", "not a question", "same question
            twice", "asked before", "unanswerable one is answered", "answerable one is declined", "answer in the question".
    """
    if text is None:
        raise UnusableReply("no reply")
    if NOT_GOOD in text.casefold():
        raise UnusableReply(NOT_GOOD)
    pair = _parse(text)
    if not (pair.unanswerable.endswith("?") and pair.answerable.endswith("?")):
        raise UnusableReply("not a question")
    first, second = normalise(pair.unanswerable), normalise(pair.answerable)
    if first == second:
        raise UnusableReply("same question twice")
    if first in earlier or second in earlier:
        raise UnusableReply("asked before")
    if not is_refusal(pair.refusal, pair.unanswerable):
        raise UnusableReply("unanswerable one is answered")
    if is_refusal(pair.answer, pair.answerable):
        raise UnusableReply("answerable one is declined")
    if gives_away(pair.answerable, pair.answer):
        raise UnusableReply("answer in the question")
    return pair


def questions_of(pair: Written) -> set[str]:
    """Both questions, as duplicates are told by."""
    return {normalise(pair.unanswerable), normalise(pair.answerable)}


def gives_away(question: str, answer: str) -> bool:
    """Whether the words of the answer stand in the question, which is not one that offers them for choice ("red or blue?")."""
    words, text = normalise(answer), f" {normalise(question)} "
    return bool(words) and f" {words} " in text and " or " not in text


def _parse(text: str) -> Written:
    by_label: dict[str, str] = {}
    for line in lines(text):
        match = _LINE.match(line)
        if match is None or len(by_label) == len(LABELS) or match[1].upper() != LABELS[len(by_label)]:
            raise UnusableReply("malformed reply")
        by_label[match[1].upper()] = value(match[2])
    if len(by_label) < len(LABELS):
        raise UnusableReply("malformed reply")
    return Written(*(by_label[label] for label in LABELS))


def value(text: str) -> str:
    """What stands behind a label, without more labels and quotes.

    Raises:
        UnusableReply: "malformed reply": nothing does, or two things.
    """
    content = bare(text)
    if not content or is_doubtful(content):
        raise UnusableReply("malformed reply")
    return content


def sections(about: Mapping[str, Any]) -> dict[str, str]:
    """What a spec's taxonomy says of a category, as sections of its prompt."""
    parts: dict[str, str] = {}
    examples = [str(e).strip() for e in about.get("examples") or ()]
    if examples and all(all(f"{label}:" in e for label in LABELS) for e in examples):
        parts["Examples"] = "\n\n".join(examples)
    elif examples:
        parts["Questions of this kind"] = "\n".join(f"- {e}" for e in examples)
    if about.get("answer"):
        parts["What a right answer to the first question is"] = str(about["answer"]).strip()
    if about.get("definition"):
        parts["Definition"] = str(about["definition"]).strip()
    return parts
