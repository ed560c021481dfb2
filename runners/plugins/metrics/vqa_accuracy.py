"""VQA accuracy. VQA: Antol et al., 2015 (ICCV)."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

CITES = ["antol2015vqa"]
META = MetricMeta(higher_is_better=True, interval="proportion", increases_with="rated_by_vqa", row_by_row=True)


def vqa_accuracy(rated_by_vqa: Floats, weights: Weights) -> Floats:
    """Mean agreement with ten people's answers, by the official normalisation.

    mean(a), a = mean over the references i of min(1, matches among the others / 3), in [0, 1], higher is better. The
    matching is done by the judge `vqa`, which must be among the spec's `judges:`, wherever it stands in that list.
    Undefined without rows.
    """
    return mean(rated_by_vqa, np.ones_like(rated_by_vqa), weights)
