"""Share of samples that a perturbation does not change; complements every metric that pairs a sample with its clean version."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

META = MetricMeta(higher_is_better=None, interval="proportion")


def unchanged_input_rate(input_changed: Floats, weights: Weights) -> Floats:
    """Share of samples whose perturbed input equals the clean one, in prompt and pixels.

    mean 1[input as when clean], in [0, 1]; neither direction is better. The answer to such a sample cannot change, so it counts as
    no reaction and as no hallucination: a text perturbation that leaves most questions alone looks harmless. Metrics that compare both
    answers are therefore computed a second time, over the changed samples only (slice `changed`). Not of the clean variant, nor of recorded
    answers, of which nobody knows what was shown. Undefined without rows.
    """
    return mean(1 - input_changed, np.ones_like(input_changed), weights)
