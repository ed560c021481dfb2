"""A model's mean uncertainty, in the estimator's own unit: it shows shifts to which `auroc`, made of ranks, is blind."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

META = MetricMeta(higher_is_better=None, interval="t")


def mean_uncertainty(uncertainty: Floats, weights: Weights) -> Floats:
    """Arithmetic mean of an estimator's values; NaN if one is infinite.

    In the estimator's own unit, HIGHER = MORE UNCERTAIN; neither direction is better, and values of two estimators cannot be
    compared. Of every variant, so that it can be drawn against a perturbation's strength. Undefined without rows and where a
    value is infinite.
    """
    if not np.isfinite(uncertainty).all():
        return np.full(weights.shape[0], np.nan)
    return mean(uncertainty, np.ones_like(uncertainty), weights)


def why_undefined(uncertainty: Floats) -> str:
    """Return the only reason for an undefined mean: a value is infinite."""
    return "a value is infinite"
