"""Columns and context of estimators."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.nli import NliContext, NliError
from qualm.runners.inference.nli import CACHE, CachedNli, open_nli
from qualm.runners.runtime.settings import Settings

Floats = NDArray[np.float64]
Rows: TypeAlias = list[Floats]
Texts: TypeAlias = list[list[str]]
"""Sampled answers of each sample."""
Draws: TypeAlias = list[Rows]
"""One number per token, by sample and sampled answer."""


@dataclass
class EstimatorContext:
    """Settings and NLI models for the estimators of a stage."""

    settings: Settings = field(default_factory=Settings)
    counters: Counter[str] = field(default_factory=Counter)
    cache: Path = CACHE
    _opened: dict[str, CachedNli] = field(default_factory=dict)

    def nli(self, chosen: Any, reads: str = "contradiction") -> CachedNli:
        """Return the NLI model or encoder that `chosen` names; NliError if unfit for `reads`.

        Args:
            chosen: value of the parameter.
            reads: what the estimator reads: `contradiction` (all three classes), `entailment` (a model of two classes will do), or
                `cosine` (of an encoder).

        Raises:
            NliError: the model cannot be opened, or does not tell what is read.
        """
        name = json.dumps(chosen, sort_keys=True)
        if name not in self._opened:
            self._opened[name] = open_nli(chosen, NliContext(self.settings, self.counters), self.cache)
        model = self._opened[name]
        if (reads == "cosine") != (model.classes == 1):
            raise NliError(
                f"{model.engine.name} gives cosine similarities and tells no entailment: set `similarity: cosine` or choose an NLI model"
                if model.classes == 1
                else f"{model.engine.name} is an NLI model and gives no cosine: choose an encoder, `nli: {{embedding: {{hub: MODEL}}}}`"
            )
        if reads == "contradiction" and model.classes < 3:
            raise NliError(
                f"{model.engine.name} has two classes, entailment and no entailment; contradictions are needed here: choose an NLI model "
                "of three classes, or, where the estimator has it, `similarity: entailment` or `same: entailment`"
            )
        return model


def sums(rows: Rows) -> tuple[Floats, Floats]:
    """Return the sum and the length of each row, two arrays (n,)."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    flat = np.concatenate(rows) if len(rows) else np.empty(0)
    owner = np.repeat(np.arange(len(rows)), lengths)
    total: Floats = np.asarray(np.bincount(owner, flat, len(rows)), dtype=np.float64)
    return total, lengths.astype(np.float64)


def means(rows: Rows) -> Floats:
    """Return the mean of each row, (n,); NaN for an empty row."""
    total, length = sums(rows)
    result: Floats = np.divide(total, length, out=np.full(len(rows), np.nan), where=length > 0)
    return result
