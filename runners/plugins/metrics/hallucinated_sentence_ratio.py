"""Sentence-level hallucination ratio (SHR). Zhao, Wang, Ouyang et al., 2023 (HA-DPO)."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio

CITES = ["zhao2023beyond"]
META = MetricMeta(higher_is_better=False, interval="proportion")
NEEDS = {"hallucinated": "marked_by_{judge}/hallucinated", "sentences": "marked_by_{judge}/sentences"}


def hallucinated_sentence_ratio(hallucinated: Floats, sentences: Floats, weights: Weights, *, judge: str = "") -> Floats:
    """Share of sentences in descriptions that state something not in the image.

    hallucinated sentences / sentences, over all descriptions together, in [0, 1], lower is better; sentences that the judge cannot decide
    on count in the denominator only. A description whose judgements could not be read is unscored. Undefined without sentences.

    Args:
        judge: Label of the judge `shr`; by default the one whose ratings are scored.
    """
    sums = weights @ np.column_stack([hallucinated, sentences])
    return ratio(sums[:, 0], sums[:, 1])
