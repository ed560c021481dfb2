"""Contract of uncertainty estimators: how uncertain a model's answers to a question are.

A plugin `NAME.py` has one of these functions; the second form gets the settings of the run and can open an NLI model:

    NEEDS = ["token_logprobs"]       # the columns that it reads (`qualm.registry.plugins.columns`)

    def NAME(token_logprobs: Rows, *, parameter: type = default) -> Floats
    def NAME(context: EstimatorContext, draw_texts: Texts, ..., *, nli: Annotated[Chosen, Kind("nli")] = "lexical") -> Floats

- Positional arguments are columns. Columns of GENERATIONS (`registry/sample.py`) are of the greedy answer: a list column is a list of n
  float64 arrays, text a list of n strings, a number a float64 array (n,). `draw_texts`, `draw_logprobs` and `draw_entropies` are lists over
  the sampled answers of each sample, in order. `question` is the sample's.
- `draw_texts_under_WHICH` and `draw_logprobs_under_WHICH` are of sampled answers to perturbed variants of the question, sorted by variant.
  WHICH is `all`, a perturbation (`blur`) or a variant (`blur@radius=2`), usually a parameter: NEEDS = {"perturbed_texts":
  "draw_texts_under_{under}"}. Such an estimator has values for clean answers only; variants that a sample lacks are left out.
- `hidden_states/LAYER/PLACE` and `draw_hidden_states/LAYER/PLACE` (`qualm.registry.plugins.internals`) are passed like list columns, some
  rows at a time. NEEDS names them: `{"states": "draw_hidden_states/{layer}/answer_last"}`.
- Rows that lack a column, or have fewer sampled answers than the spec asks for, are not passed; their value is null and counted. So
  multiple-choice rows have no value by estimators of sampled answers.
- The result is (n,) float64, HIGHER = MORE UNCERTAIN, NaN if undefined (an empty generation has no mean); +inf is allowed.
- A value depends on its own row only.
- Values over sampled answers are rounded to 12 decimals (`qualm.runners.stages.estimate`), so that their order does not matter.
- Multiple-choice rows hold one token, the answer's letter, so sequence measures are over that token.
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
"""Sampled answers of each sample."""
Draws: TypeAlias = list[Rows]
"""One number per token, by sample and sampled answer."""


@dataclass
class EstimatorContext:
    """Settings and NLI models for the estimators of a stage."""

    settings: Settings = field(default_factory=Settings)
    counters: Counter[str] = field(default_factory=Counter)
    cache: Path = CACHE
    _opened: dict[str, Nli] = field(default_factory=dict)

    def nli(self, chosen: Any) -> Nli:
        """Return the NLI model of a `Chosen` parameter, opened once; NliError if it cannot be."""
        name = json.dumps(chosen, sort_keys=True)
        if name not in self._opened:
            self._opened[name] = open_nli(chosen, NliContext(self.settings, self.counters), self.cache)
        return self._opened[name]


def sums(rows: Rows) -> tuple[Floats, Floats]:
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
