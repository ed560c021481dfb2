"""Features and network of a probe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ProbeDesign:
    """Features of answers and the network to train on them, as a probe plugin returns it."""

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


def stack_rows(rows: list[Floats]) -> Floats:
    """Stack rows of equal length to an array (n, d); (0, 0) without rows."""
    return np.stack(rows) if rows else np.empty((0, 0))
