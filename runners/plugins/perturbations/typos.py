"""Typing errors: letters replaced by their neighbours on the keyboard."""

from typing import Annotated

from annotated_types import Ge, Le
from numpy.random import Generator

from qualm.runners.plugins.perturbations._wording import finish_edit

CITES = ["wang_vlmuqbench"]
MODALITY = "text"

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_SHIFT = (0.0, 0.25, 0.75)
"""Horizontal offset of each row of a keyboard, in keys."""


def _neighbours() -> dict[str, str]:
    places = {key: (x + _SHIFT[y], y) for y, row in enumerate(_ROWS) for x, key in enumerate(row)}
    near = {a: "".join(b for b, (u, v) in places.items() if b != a and abs(u - x) <= 1 and abs(v - y) <= 1) for a, (x, y) in places.items()}
    return near | {a.upper(): keys.upper() for a, keys in near.items()}


NEIGHBOURS = _neighbours()
"""Letter -> adjacent letters on a QWERTY keyboard, in the same case."""


def typos(batch: list[str], rngs: list[Generator], *, p: Annotated[float, Ge(0), Le(1)] = 0.15) -> list[str]:
    """Return the questions with letters replaced by keyboard neighbours with probability `p`.

    Neighbours are those on an English keyboard; case and everything else stay. The result ends with a question mark, unless nothing was
    replaced: then the question is unchanged.

    Args:
        p: probability for each letter; VLM-UQBench reports .15, which its appendix calls strong (minor: .03). 0 changes nothing.
    """
    return [finish_edit(question, _typed(question, rng, p)) for question, rng in zip(batch, rngs, strict=True)]


def _typed(question: str, rng: Generator, p: float) -> str:
    letters = [i for i, letter in enumerate(question) if letter in NEIGHBOURS]
    characters = list(question)
    for i, (chance, which) in zip(letters, rng.random((len(letters), 2)).tolist(), strict=True):
        if chance < p:
            near = NEIGHBOURS[question[i]]
            characters[i] = near[int(which * len(near))]
    return "".join(characters)
