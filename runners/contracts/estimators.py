"""Uncertainty estimators: what a model's answers to one question say of how sure it was.

The contract of a plugin `NAME.py`, the second form for one that needs the run's settings or a model of inference:

    NEEDS = ["token_logprobs"]       # the columns it reads, so that the compiler knows without a model (`qualm.registry.plugins.columns`)

    def NAME(token_logprobs: Rows, *, parameter: type = default) -> Floats
    def NAME(context: EstimatorContext, draw_texts: Texts, ..., *, nli: Annotated[Chosen, Kind("nli")] = "lexical") -> Floats

- Positional arguments are columns. Those of GENERATIONS (`registry/sample.py`) are of the greedy answer: a list column comes as a
  list of n float64 arrays, text as a list of n strings, a number as a float64 array (n,). `draw_texts`, `draw_logprobs` and
  `draw_entropies` are of the sampled answers, for each sample a list over its draws, in order. `question` is the sample's own.
- `draw_texts_under_WHICH` and `draw_logprobs_under_WHICH` are of the answers sampled to the same question under perturbed variants, those
  of one variant after those of another, by name: WHICH is `all`, a perturbation (`blur`) or a variant (`blur@radius=2`), usually a
  parameter of the plugin: NEEDS = {"perturbed_texts": "draw_texts_under_{under}"}. They stand beside the clean answers alone, so such an
  estimator has a value of a clean answer and none of a perturbed one; variants that a sample does not have are left out of its list.
- `hidden_states/LAYER/PLACE` and `draw_hidden_states/LAYER/PLACE` (`qualm.registry.plugins.internals`) come as list columns do, so many
  rows at a time. They are named in NEEDS: `{"states": "draw_hidden_states/{layer}/answer_last"}`.
- Rows that lack one of these columns, or have fewer draws than the spec asks for, are not handed over; their value is null and
  counted. So multiple-choice rows, which nothing is drawn for, have no value by any estimator of draws.
- The result is (n,) float64, HIGHER = MORE UNCERTAIN, NaN where undefined (an empty generation has no mean), +inf allowed.
- A value depends on its own row alone, whatever else is handed over.
- Values over draws are kept to 12 decimals (`qualm.runners.stages.estimate`), so that the same draws in another order are a tie.
- Multiple-choice rows hold the one token of the answer's letter, so sequence measures are over that token.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.nli import NliContext
from qualm.runners.inference.nli import CACHE, Nli, open_nli
from qualm.runners.runtime.settings import Settings

Floats = NDArray[np.float64]
Rows: TypeAlias = list[Floats]
Texts: TypeAlias = list[list[str]]
"""For each sample its drawn answers."""
Draws: TypeAlias = list[Rows]
"""For each sample and draw one number per token."""


@dataclass
class EstimatorContext:
    """What an estimator is handed that asks for it; one for all estimators of a stage."""

    settings: Settings = field(default_factory=Settings)
    counters: Counter[str] = field(default_factory=Counter)
    """What this run did: printed, and not part of the result."""
    cache: Path = CACHE
    _opened: dict[str, Nli] = field(default_factory=dict)

    def nli(self, chosen: Any) -> Nli:
        """Return the NLI model of a `Chosen` parameter, opened once; NliError if it cannot be."""
        name = json.dumps(chosen, sort_keys=True)
        if name not in self._opened:
            self._opened[name] = open_nli(chosen, NliContext(self.settings, self.counters), self.cache)
        return self._opened[name]


def sums(rows: Rows) -> tuple[Floats, Floats]:
    """Sum and length of every row."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    flat = np.concatenate(rows) if len(rows) else np.empty(0)
    owner = np.repeat(np.arange(len(rows)), lengths)
    total: Floats = np.asarray(np.bincount(owner, flat, len(rows)), dtype=np.float64)
    return total, lengths.astype(np.float64)


def means(rows: Rows) -> Floats:
    """Mean of every row, NaN of an empty one."""
    total, length = sums(rows)
    result: Floats = np.divide(total, length, out=np.full(len(rows), np.nan), where=length > 0)
    return result
