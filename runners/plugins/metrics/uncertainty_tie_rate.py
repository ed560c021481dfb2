"""Share of samples whose uncertainty a perturbation does not change; complements the uncertainty reflection rate."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

META = MetricMeta(higher_is_better=None, interval="proportion")


def uncertainty_tie_rate(uncertainty: Floats, clean_uncertainty: Floats, weights: Weights) -> Floats:
    """Share of samples whose uncertainty is the same when perturbed and when clean.

    mean 1[u_perturbed = u_clean], in [0, 1]; neither direction is better. Ties come from estimators that saturate (all draws
    agree, say) and from perturbations that changed nothing. Not of the clean variant. Undefined without rows.
    """
    return mean((uncertainty == clean_uncertainty).astype(np.float64), np.ones_like(uncertainty), weights)
