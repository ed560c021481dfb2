"""The calibration part of the Brier score. Murphy, 1973 (Journal of Applied Meteorology)."""

from typing import Annotated, Literal

from annotated_types import Ge

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, chosen_rows
from qualm.runners.plugins.metrics._brier import decompose_brier

CITES = ["murphy1973vector"]
ALSO_KNOWN_AS = ["reliability", "murphy_reliability"]
META = MetricMeta(
    higher_is_better=False,
    interval="none",
    why_no_interval="it is biased upwards, and resampling adds to the bias; `brier` has an interval for the whole score",
    row_by_row=True,
)
NEEDS = {
    "forecast": {"over": {"answer": "confidence", "options": "option_probabilities"}},
    "outcome": {"over": {"answer": "correct", "options": "right_option"}},
}


def brier_reliability(
    forecast: Floats,
    outcome: Floats,
    is_calibration: Floats,
    weights: Weights,
    *,
    over: Literal["answer", "options"] = "answer",
    bins: Annotated[int, Ge(1)] = 15,
    rows: Literal["test", "all"] = "test",
) -> Floats:
    """Squared gap between a bin's mean confidence and correctness, averaged over bins.

    sum over bins of |B|/n * (mean confidence(B) - mean correct(B))^2, in [0, 1] (of options summed, in [0, 2]), lower is better. Too
    large by chance, the more so the fewer answers a bin has; `ece_debiased` with `squared` is the same without that. Undefined
    without rows.

    Args:
        over: The confidence in the answer, or the probabilities of all options, part by part and summed (multiple choice only).
        bins: Number of equal-width bins.
        rows: `test`: rows no conformal setting calibrates on. `all`: every row.

    Raises:
        ValueError: a probability outside [0, 1].
    """
    chosen = chosen_rows(is_calibration, rows)
    return decompose_brier(forecast, outcome, chosen, weights, over, bins).reliability
