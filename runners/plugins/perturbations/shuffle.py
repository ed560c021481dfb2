"""Phrases out of order: all words are there, and what belongs to what is not."""

import re
from typing import Annotated, Literal

from annotated_types import Ge, Le
from numpy.random import Generator

from qualm.runners.plugins.perturbations._wording import edited

CITES = ["wang_vlmuqbench"]
MODALITY = "text"

CONJUNCTIONS = (
    "although", "and", "because", "before", "after", "but", "if", "nor", "or", "since", "so", "than", "that", "though", "unless", "until",
    "when", "whereas", "whether", "which", "while", "who", "yet",
)  # fmt: skip
_MARKS = ",;:.!?、，；：。？！؟،؛—–()"
_TOKEN = re.compile(r"\s+|\S+")


def shuffle(
    batch: list[str], rngs: list[Generator], *, k: Annotated[int, Ge(0), Le(100)] = 1, unit: Literal["phrases", "words"] = "phrases"
) -> list[str]:
    """Let two phrases change places, k times; punctuation and conjunctions between phrases stay where they are.

    Every pair of places is equally likely, and none is taken twice. The result ends with a question mark. A question of a single phrase
    has nothing to exchange and comes back as it was: with short questions that is most of them, so look at the count of those unchanged.

    Args:
        k: how many exchanges: VLM-UQBench's 1 (minor) or 2 (strong); more than there are pairs is all of them. 0 changes nothing.
        unit: `phrases`, split at punctuation and conjunctions as in the paper; or `words`, which any question has.
    """
    return [edited(question, _exchanged(question, rng, k, unit == "words")) for question, rng in zip(batch, rngs, strict=True)]


def _exchanged(question: str, rng: Generator, k: int, words: bool) -> str:
    pieces, places = _split(question, words)
    n = len(places)
    taken: set[tuple[int, int]] = set()
    while len(taken) < min(k, n * (n - 1) // 2):
        first, second = sorted(rng.choice(n, 2, replace=False).tolist())
        if (first, second) not in taken:
            taken.add((first, second))
            a, b = places[first], places[second]
            pieces[a], pieces[b] = pieces[b], pieces[a]
    return "".join(pieces)


def _split(question: str, words: bool) -> tuple[list[str], list[int]]:
    """A question in pieces, and which of them are phrases (or words); the others are what stands between."""
    pieces: list[str] = []
    places: list[int] = []
    within = False  # a phrase, which the next word goes on
    for token in _TOKEN.findall(question):
        core = token.strip(_MARKS)
        if not core or core.isspace() or core.casefold() in CONJUNCTIONS:
            within = within and token.isspace()
            pieces.append(token)
            continue
        start = token.index(core)
        lead, trail = token[:start], token[start + len(core) :]
        if within and not lead and not words:
            space = pieces.pop()
            pieces[-1] += space + core
        else:
            pieces += [lead, core]
            places.append(len(pieces) - 1)
        pieces += [trail] if trail else []
        within = not trail
    return pieces, places
