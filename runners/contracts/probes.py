"""Probes: classifiers that read what is inside a model and say how likely its answer is wrong.

The contract of a plugin `NAME.py`:

    NEEDS = {"states": "hidden_states/{layer}/prompt_last"}  # the columns it reads, as an estimator's (`qualm.registry.plugins.internals`)
    TARGET = "wrong"                                         # what it learns: which answers are wrong...
    TARGET = {"high": "of"}                                  # ...or where the estimator that the parameter `of` names is high
    BESIDE = "under"                                         # optional: the parameter that names a perturbed variant; while it learns, the
                                                             # design's `ranking` compares the answers with the same ones under it

    def NAME(states: Rows, *, layer: str = "middle") -> ProbeDesign

- Columns come as estimators get them: of n answers a list of n float64 arrays (hidden states: one number for each unit).
- The design's features are (n, d). The function is called for the answers that are learnt from and for those that are told of, so a
  row's features depend on that row alone.
- The stage `probe` trains: one classifier for each model on clean answers that are not scored (the spec's `fit:`). Its value, by which it
  is scored as an estimator is, is the probability of the target: HIGHER = MORE UNCERTAIN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ProbeDesign:
    """What a probe sees of some answers, and the network that reads it."""

    features: Floats
    """(n, d); standardised by the mean and deviation of what is learnt from."""
    hidden: tuple[int, ...] = ()
    """Units of its hidden layers, with ReLU between; none = logistic regression, which has one solution."""
    decay: float = 1.0
    """Of logistic regression: weight of half the squared norm of the coefficients beside the summed log loss (scikit-learn's 1 / C).
    Of a network: weight decay of AdamW."""
    epochs: int = 50
    """Of a network: passes over what is learnt from."""
    rate: float = 1e-3
    """Of a network: learning rate of AdamW."""
    batch: int = 32
    """Of a network: answers in a step."""
    margin: float = 0.0
    """With BESIDE, of a network: by how much less than under the variant the probability of the target is to be..."""
    ranking: float = 0.0
    """...and the weight of what is missing, max(0, margin - that), in the mean over what the target is not, beside the mean log loss."""


def stacked(rows: list[Floats]) -> Floats:
    """Rows of one length as a table (n, d)."""
    return np.stack(rows) if rows else np.empty((0, 0))
