"""Pairs as a language model writes them: four lines, read strictly, and held to what a pair must be.

A reply that is not just so is worth another try and then nothing: a question that gives its answer away, or a refusal in the place of an
answer, would teach a model the wrong thing and nobody would see it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from qualm.runners.contracts.generators import Unusable
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


def read_pair(text: str | None, asked: Collection[str] = ()) -> Written:
    """The pair in a reply.

    Args:
        text: `Q1: ... A1: ... Q2: ... A2: ...`, each on its own line and nothing else: Q1 cannot be answered, Q2 can.
        asked: questions that were asked about this picture before, normalised.

    Raises:
        Unusable: with one of the reasons "no reply", "not a good question", "malformed reply", "not a question", "same question
            twice", "asked before", "unanswerable one is answered", "answerable one is declined", "answer in the question".
    """
    if text is None:
        raise Unusable("no reply")
    if NOT_GOOD in text.casefold():
        raise Unusable(NOT_GOOD)
    pair = _parse(text)
    if not (pair.unanswerable.endswith("?") and pair.answerable.endswith("?")):
        raise Unusable("not a question")
    first, second = normalise(pair.unanswerable), normalise(pair.answerable)
    if first == second:
        raise Unusable("same question twice")
    if first in asked or second in asked:
        raise Unusable("asked before")
    if not is_refusal(pair.refusal, pair.unanswerable):
        raise Unusable("unanswerable one is answered")
    if is_refusal(pair.answer, pair.answerable):
        raise Unusable("answerable one is declined")
    if gives_away(pair.answerable, pair.answer):
        raise Unusable("answer in the question")
    return pair


def questions_of(pair: Written) -> set[str]:
    """Both questions, as duplicates are told by."""
    return {normalise(pair.unanswerable), normalise(pair.answerable)}


def gives_away(question: str, answer: str) -> bool:
    """Whether the words of the answer stand in the question, which is not one that offers them for choice ("red or blue?")."""
    said, asked = normalise(answer), f" {normalise(question)} "
    return bool(said) and f" {said} " in asked and " or " not in asked


def _parse(text: str) -> Written:
    found: dict[str, str] = {}
    for line in lines(text):
        match = _LINE.match(line)
        if match is None or len(found) == len(LABELS) or match[1].upper() != LABELS[len(found)]:
            raise Unusable("malformed reply")
        found[match[1].upper()] = value(match[2])
    if len(found) < len(LABELS):
        raise Unusable("malformed reply")
    return Written(*(found[label] for label in LABELS))


def value(text: str) -> str:
    """What stands behind a label, without more labels and quotes.

    Raises:
        Unusable: "malformed reply": nothing does, or two things.
    """
    found = bare(text)
    if not found or is_doubtful(found):
        raise Unusable("malformed reply")
    return found


def sections(about: Mapping[str, Any]) -> dict[str, str]:
    """What a spec's taxonomy says of a category, as sections of its prompt."""
    found: dict[str, str] = {}
    examples = [str(e).strip() for e in about.get("examples") or ()]
    if examples and all(all(f"{label}:" in e for label in LABELS) for e in examples):
        found["Examples"] = "\n\n".join(examples)
    elif examples:
        found["Questions of this kind"] = "\n".join(f"- {e}" for e in examples)
    if about.get("answer"):
        found["What a right answer to the first question is"] = str(about["answer"]).strip()
    if about.get("definition"):
        found["Definition"] = str(about["definition"]).strip()
    return found
