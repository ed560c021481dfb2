"""Share of answers that say yes. POPE: Li et al., 2023 (EMNLP)."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

CITES = ["li2023evaluating"]
META = MetricMeta(higher_is_better=None, interval="proportion")
NEEDS = {"said": "marked_by_{judge}/said"}


def yes_rate(said: Floats, weights: Weights, *, judge: str = "") -> Floats:
    """Share of answers that are "yes"; near 1 for a model that agrees with everything.

    mean 1[said yes], in [0, 1]; neither direction is better, and POPE's own questions call for 0.5. Of what is said, not of the
    labels. Undefined without rows.

    Args:
        judge: Label of the judge that reads yes or no in an answer (`pope`, `amber`, `mme`); by default the one whose ratings are scored.
    """
    return mean((said == 1).astype(np.float64), np.ones_like(said), weights)
