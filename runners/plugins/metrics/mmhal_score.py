"""MMHal-Bench's score. Sun, Shen, Cao et al., 2023 (LLaVA-RLHF)."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

CITES = ["sun2023aligning"]
META = MetricMeta(higher_is_better=True, interval="t")
NEEDS = {"points": "marked_by_{judge}/points"}


def mmhal_score(points: Floats, weights: Weights, *, judge: str = "") -> Floats:
    """Mean rating of answers for being informative and free of hallucination.

    mean(points), in [0, 6], higher is better: 3 and more is without hallucination. Answers whose rating could not be read are
    unscored, unless the judge gives them the official 0. Undefined without rows.

    Args:
        judge: Label of the judge `mmhal`; by default the one whose ratings are scored.
    """
    return mean(points, np.ones_like(points), weights)


def bounds() -> tuple[float, float]:
    """Return the lowest and highest possible rating, 0 and 6."""
    return 0.0, 6.0
