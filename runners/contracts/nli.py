"""Engines of natural language inference."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from qualm.runners.runtime.settings import Settings

Pair = tuple[str, str]


Logits = tuple[float, ...]
"""Values of a pair: logits of entailment, neutral and contradiction, or of entailment and no entailment; or one cosine."""


Floats = NDArray[np.float64]


class NliError(Exception):
    """Error that an NLI model cannot be opened, or fails; earlier results are kept."""


@dataclass
class NliContext:
    settings: Settings = field(default_factory=Settings)
    counters: Counter[str] = field(default_factory=Counter)


class NliEngine(Protocol):
    """A model that classifies text pairs by entailment, or compares them by cosine similarity."""

    identity: str
    name: str
    classes: int
    """3: entailment, neutral, contradiction. 2: entailment, no entailment. 1: no classes, but a cosine similarity."""

    def infer(self, pairs: Sequence[Pair]) -> Iterator[list[tuple[int, Logits]]]:
        """Yield batches of (index of the pair, logits); raise NliError on failure."""
