"""Share of answers with a caveat."""

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

META = MetricMeta(higher_is_better=None, interval="proportion", row_by_row=True)


def hedge_rate(pred_is_idk: Floats, hedges: Floats, weights: Weights) -> Floats:
    """Share of non-abstaining answers with a caveat: "probably", "though it is hard to see".

    mean(hedges) over answers in words that do not abstain, in [0, 1]. The caveat is found by rules, whichever judge rates the answer.
    Neither direction is better. Undefined where every answer abstains.
    """
    return mean(hedges, 1 - pred_is_idk, weights)
