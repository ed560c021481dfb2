"""Phrases out of order."""

import re
from typing import Annotated, Literal

from annotated_types import Ge, Le
from numpy.random import Generator

from qualm.runners.plugins.perturbations._wording import finish_edit

CITES = ["wang_vlmuqbench"]
MODALITY = "text"

CONJUNCTIONS = (
    "although", "and", "because", "before", "after", "but", "if", "nor", "or", "since", "so", "than", "that", "though", "unless", "until",
    "when", "whereas", "whether", "which", "while", "who", "yet",
)  # fmt: skip
OPENERS = (
    "a", "about", "above", "among", "an", "any", "are", "around", "at", "behind", "below", "beneath", "beside", "between", "by", "can",
    "could", "did", "do", "does", "for", "from", "had", "has", "have", "her", "his", "in", "inside", "into", "is", "its", "may", "might",
    "must", "my", "near", "of", "on", "onto", "our", "over", "shall", "should", "some", "the", "their", "these", "this", "those",
    "through", "to", "toward", "under", "was", "were", "will", "with", "within", "without", "would", "your",
)  # fmt: skip
"""Words that begin a short phrase: articles and the like, prepositions, auxiliary verbs."""
_MARKS = ",;:.!?、，；：。？！؟،؛—–()"
_TOKEN = re.compile(r"\s+|\S+")


def shuffle(
    batch: list[str],
    rngs: list[Generator],
    *,
    k: Annotated[int, Ge(0), Le(100)] = 1,
    unit: Literal["phrases", "clauses", "words"] = "phrases",
) -> list[str]:
    """Return the questions with two phrases swapped, `k` times; other marks and words stay.

    Every pair of places is equally likely and used at most once. The result ends with a question mark. The paper splits questions at
    punctuation and conjunctions; that leaves all of CLEVR's templates whole, although it reports that shuffling makes 1 to 18% of their
    answers wrong. Here a question that is whole by that rule is cut before articles, prepositions and auxiliary verbs ("What color | is the
    large sphere"), else into words. A single word is unchanged.

    Args:
        k: number of swaps, at most that of pairs: VLM-UQBench's 1 (minor) or 2 (strong); 0 changes nothing.
        unit: `phrases`, as said; `clauses`, at punctuation and conjunctions alone; or `words`.
    """
    return [finish_edit(question, _exchanged(question, rng, k, unit)) for question, rng in zip(batch, rngs, strict=True)]


def _exchanged(question: str, rng: Generator, k: int, unit: str) -> str:
    finer = ("clauses", "phrases", "words") if unit == "phrases" else (unit,)
    splits = [_split(question, one) for one in finer]
    pieces, places = next((split for split in splits if len(split[1]) > 1), splits[0])
    n = len(places)
    taken: set[tuple[int, int]] = set()
    while len(taken) < min(k, n * (n - 1) // 2):
        first, second = sorted(rng.choice(n, 2, replace=False).tolist())
        if (first, second) not in taken:
            taken.add((first, second))
            a, b = places[first], places[second]
            pieces[a], pieces[b] = pieces[b], pieces[a]
    return "".join(pieces)


def _split(question: str, unit: str) -> tuple[list[str], list[int]]:
    """Return (pieces of a question, indices of the pieces that can be swapped)."""
    pieces: list[str] = []
    places: list[int] = []
    within = False  # a phrase, which the next word goes on
    opened = False  # its last word began it
    for token in _TOKEN.findall(question):
        core = token.strip(_MARKS)
        if not core or core.isspace() or core.casefold() in CONJUNCTIONS:
            within = within and token.isspace()
            pieces.append(token)
            continue
        start = token.index(core)
        lead, trail = token[:start], token[start + len(core) :]
        opens = core.casefold() in OPENERS
        goes_on = unit == "clauses" or (unit == "phrases" and (opened or not opens))
        if within and not lead and goes_on:
            space = pieces.pop()
            pieces[-1] += space + core
        else:
            pieces += [lead, core]
            places.append(len(pieces) - 1)
        pieces += [trail] if trail else []
        within, opened = not trail, opens
    return pieces, places
