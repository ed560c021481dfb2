"""Uncertainty reflection rate (URR). VLM-UQBench: Wang, Chen, Ahmad, Batmanghelich, Li."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

CITES = ["wang_vlmuqbench"]
META = MetricMeta(
    higher_is_better=True,
    interval="proportion",
    test="exchange",
    companions=["uncertainty_tie_rate", "mean_uncertainty", "unchanged_input_rate"],
)


def uncertainty_reflection_rate(uncertainty: Floats, clean_uncertainty: Floats, weights: Weights) -> Floats:
    """Share of samples whose uncertainty is higher when perturbed than when clean.

    mean 1[u_perturbed > u_clean], strictly, in [0, 1], higher is better. A tie counts as no reflection, so 0.5 is chance only
    where there are none: the share of ties is always computed beside it. Samples that lack either value, or that the
    perturbation cannot be applied to, are unscored. Not of the clean variant. Undefined without rows.
    """
    return mean((uncertainty > clean_uncertainty).astype(np.float64), np.ones_like(uncertainty), weights)
