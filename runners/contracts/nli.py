"""Natural language inference: does one text follow from another, contradict it, or neither? Estimators ask it which answers agree.

An NLI plugin is one file here holding one function of the file's name, which returns an `NliEngine`:

    def hf(context: NliContext, *, artifact: Artifact, ...) -> NliEngine: ...

A plugin that compares texts names one in a parameter `Annotated[Chosen, Kind("nli")]` and opens it here. What every `NliEngine` keeps:

- Three logits per pair, in the order of `ENTAILMENT`, `NEUTRAL`, `CONTRADICTION`; their softmax is the probabilities.
- Building it reads no weights: the first pair does.
- What it says of a pair depends on that pair alone: at float32 to rounding, whatever is in the batch beside it.
- `identity` changes whenever anything does that its logits depend on; an empty one means that it costs nothing and is not kept.

Toolkits ask an NLI model about every pair of ten answers in turn. Here all pairs of all samples are collected first, equal ones
are asked once, and never again: they are kept by content in `.qualm/nli`. Two rules come before any model:

- A text follows from itself, surely; no model is asked. (Models put it a little below 1, and toolkits that ask differ by that.)
- A text without a visible character and one with contradict each other: no answer is unlike any answer, by every measure.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from qualm.runners.runtime.settings import Settings

Pair = tuple[str, str]
"""Premise and hypothesis: does the second follow from the first?"""


Logits = tuple[float, float, float]


Floats = NDArray[np.float64]


class NliError(Exception):
    """An NLI model that cannot be opened or fails. The message says which, why, and what to do; what was inferred is kept."""


@dataclass
class NliContext:
    """What an NLI plugin is handed beside the spec's parameters."""

    settings: Settings = field(default_factory=Settings)
    counters: Counter[str] = field(default_factory=Counter)
    """What this run did: printed, and not part of the result."""


class NliEngine(Protocol):
    """Something that tells whether texts follow from each other."""

    identity: str
    name: str
    """For messages to people."""

    def infer(self, pairs: Sequence[Pair]) -> Iterator[list[tuple[int, Logits]]]:
        """Yield logits with their pairs' places, batch by batch; NliError if it cannot go on."""
