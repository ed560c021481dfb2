"""Share of prediction sets that hold the truth (Ye et al., Benchmarking LLMs via uncertainty quantification, 2024)."""

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

CITES = ["kostumov2024uncertainty", "ye2024benchmarking"]
META = MetricMeta(higher_is_better=None, interval="proportion", target="1 - alpha", row_by_row=True)


def coverage(covered: Floats, is_calibration: Floats, weights: Weights) -> Floats:
    """Share of test rows whose prediction set contains the right option.

    mean 1[y in C(x)], in [0, 1]. Neither direction is better: it is judged by its distance from 1 - alpha, beside the band in which it
    should lie if the guarantee holds; far above that band, sets are larger than they need to be. Undefined without test rows.
    """
    return mean(covered, 1 - is_calibration, weights)
