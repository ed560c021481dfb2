"""Words left out, as in a poor transcript."""

import re
from typing import Annotated

from annotated_types import Ge, Le
from numpy.random import Generator

from qualm.runners.plugins.perturbations._wording import finish_edit

CITES = ["wang_vlmuqbench"]
MODALITY = "text"
_TOKEN = re.compile(r"\S+\s*")


def dropwords(batch: list[str], rngs: list[Generator], *, p: Annotated[float, Ge(0), Le(1)] = 0.15) -> list[str]:
    """Return the questions with each word dropped with probability `p`; at least one stays.

    Words are separated by white space. If all were dropped, a random one stays. The result ends with a question mark, unless nothing was
    dropped: then the question is unchanged.

    Args:
        p: probability for each word. VLM-UQBench reports .15; its appendix lists .05 (minor) and .25 (strong). 0 changes nothing.
    """
    return [finish_edit(question, _thinned(question, rng, p)) for question, rng in zip(batch, rngs, strict=True)]


def _thinned(question: str, rng: Generator, p: float) -> str:
    tokens = _TOKEN.findall(question)
    if not tokens:
        return question
    stays = rng.random(len(tokens)) >= p
    if stays.all():
        return question
    if not stays.any():
        stays[int(rng.integers(len(tokens)))] = True
    return "".join(token for token, stay in zip(tokens, stays.tolist(), strict=True) if stay).rstrip()
