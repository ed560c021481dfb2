"""Area under the ROC curve: can uncertainty tell perturbed inputs from clean ones, without knowing which belong together?"""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.ranking import tie_sums

CITES = ["wang_vlmuqbench"]
META = MetricMeta(higher_is_better=True, interval="proportion", companions=["unchanged_input_rate"])


def auroc_perturbed(uncertainty: Floats, clean_uncertainty: Floats, weights: Weights) -> Floats:
    """Probability that a random perturbed sample is more uncertain than a random clean one.

    P(u_perturbed > u_clean) + 1/2 P(=) over all pairs of samples that have both values, their own partner among them; in
    [0, 1], 0.5 is chance, higher is better. Where `uncertainty_reflection_rate` compares each sample with itself, this asks
    whether one threshold would do for all. Not of the clean variant. Undefined without rows.
    """
    if not len(uncertainty):
        return np.full(weights.shape[0], np.nan)
    dense = np.asarray(weights)
    both, n = np.concatenate([uncertainty, clean_uncertainty]), len(uncertainty)
    perturbed, clean = tie_sums(both, [np.repeat([1.0, 0.0], n), np.repeat([0.0, 1.0], n)], np.concatenate([dense, dense], axis=1))
    below = np.cumsum(clean, axis=1) - clean
    return ratio((perturbed * (below + 0.5 * clean)).sum(axis=1), perturbed.sum(axis=1) * clean.sum(axis=1))


def chance() -> float:
    """Return the AUROC of an uncertainty without information, 0.5."""
    return 0.5
