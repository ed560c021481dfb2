"""Contract of natural language inference (NLI): does one text follow from another, contradict it, or neither?

A plugin `NAME.py` has a function that returns an `NliEngine`:

    def hf(context: NliContext, *, artifact: Artifact, ...) -> NliEngine: ...

A plugin that compares texts takes one as a parameter `Annotated[Chosen, Kind("nli")]`. Every `NliEngine` keeps these rules:

- It returns three logits per pair: `ENTAILMENT`, `NEUTRAL`, `CONTRADICTION`; their softmax is the probabilities.
- Weights are read for the first pair.
- Logits depend only on their own pair, up to rounding at float32.
- `identity` changes with everything that logits depend on; an empty one marks engines that are too cheap to store.

All pairs of all samples are collected first, equal ones are inferred once, and results are stored in `.qualm/nli`. Two rules replace the
model:

- A text entails itself with certainty. (Models give slightly less than 1, by which toolkits differ.)
- A text without visible characters contradicts one with: no answer differs from any answer.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from qualm.runners.runtime.settings import Settings

Pair = tuple[str, str]


Logits = tuple[float, float, float]


Floats = NDArray[np.float64]


class NliError(Exception):
    """An NLI model cannot be opened, or fails; earlier results are kept."""


@dataclass
class NliContext:
    settings: Settings = field(default_factory=Settings)
    counters: Counter[str] = field(default_factory=Counter)


class NliEngine(Protocol):
    identity: str
    name: str

    def infer(self, pairs: Sequence[Pair]) -> Iterator[list[tuple[int, Logits]]]:
        """Yield logits with the indices of their pairs; NliError on failure."""
