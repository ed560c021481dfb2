"""Contract of probes: classifiers of hidden states or attention that predict wrong answers.

A plugin `NAME.py` has the function

    NEEDS = {"states": "hidden_states/{layer}/prompt_last"}  # the columns that it reads (`qualm.registry.plugins.internals`)
    TARGET = "wrong"                                         # what it learns: which answers are wrong...
    TARGET = {"high": "of"}                                  # ...or where the estimator in the parameter `of` is high
    BESIDE = "under"                                         # optional: parameter that names a perturbed variant; in training, the
                                                             # design's `ranking` compares answers with those under the variant

    def NAME(states: Rows, *, layer: str = "middle") -> ProbeDesign

- Columns are passed as to estimators: for n answers a list of n float64 arrays (hidden states: one number per unit).
- The features are (n, d). The function is called for training and for prediction, so a row's features depend only on that row.
- The stage `probe` trains one classifier per model on clean answers that are not scored (the spec's `fit:`). Its value is the probability
  of the target, HIGHER = MORE UNCERTAIN, and is scored as an estimator's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ProbeDesign:
    """Features of answers, and the network that classifies them."""

    features: Floats
    """(n, d); standardised by mean and standard deviation of the training rows."""
    hidden: tuple[int, ...] = ()
    """Units of hidden layers with ReLU; empty = logistic regression."""
    decay: float = 1.0
    """Regularisation. Logistic regression: weight of half the squared norm of the coefficients beside the summed log loss (scikit-learn's
    1 / C). Network: weight decay of AdamW."""
    epochs: int = 50
    """Network: passes over the training rows."""
    rate: float = 1e-3
    """Network: learning rate of AdamW."""
    batch: int = 32
    """Network: answers per step."""
    margin: float = 0.0
    """Network with BESIDE: by how much the probability of the target should be lower than under the variant..."""
    ranking: float = 0.0
    """...and the weight of the mean shortfall max(0, margin - difference), over rows that are not the target, in the loss."""


def stacked(rows: list[Floats]) -> Floats:
    """Stack rows of equal length to (n, d)."""
    return np.stack(rows) if rows else np.empty((0, 0))
