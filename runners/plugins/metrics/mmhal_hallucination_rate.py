"""MMHal-Bench's rate of hallucination. Sun, Shen, Cao et al., 2023 (LLaVA-RLHF)."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

CITES = ["sun2023aligning"]
META = MetricMeta(higher_is_better=False, interval="proportion")
NEEDS = {"points": "marked_by_{judge}/points"}
CLEAN_FROM = 3
"""The least rating of an answer without hallucination."""


def mmhal_hallucination_rate(points: Floats, weights: Weights, *, judge: str = "") -> Floats:
    """Share of answers rated as hallucinated.

    mean 1[points < 3], in [0, 1], lower is better. Answers whose rating could not be read are unscored, unless the judge gives them
    the official 0, which counts as a hallucination. Undefined without rows.

    Args:
        judge: Label of the judge `mmhal`; by default the one whose ratings are scored.
    """
    return mean((points < CLEAN_FROM).astype(np.float64), np.ones_like(points), weights)
