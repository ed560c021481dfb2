"""The part of the Brier score that belongs to the questions. Murphy, 1973 (Journal of Applied Meteorology)."""

from typing import Literal

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, chosen_rows
from qualm.runners.plugins.metrics._brier import decompose_brier

CITES = ["murphy1973vector"]
ALSO_KNOWN_AS = ["murphy_uncertainty"]
META = MetricMeta(higher_is_better=None, interval="none", why_no_interval="it follows from accuracy, which has one", row_by_row=True)
NEEDS = {
    "forecast": {"over": {"answer": "confidence", "options": "option_probabilities"}},
    "outcome": {"over": {"answer": "correct", "options": "right_option"}},
}


def brier_uncertainty(
    forecast: Floats,
    outcome: Floats,
    is_calibration: Floats,
    weights: Weights,
    *,
    over: Literal["answer", "options"] = "answer",
    rows: Literal["test", "all"] = "test",
) -> Floats:
    """Brier score of giving every answer the same confidence, the accuracy.

    Variance of correctness, accuracy * (1 - accuracy) of right and wrong answers; of options the sum of each option's. In [0, 1/4] (of
    K options [0, 1 - 1/K]); neither direction is better. Undefined without rows.

    Args:
        over: The confidence in the answer, or the probabilities of all options (multiple choice only).
        rows: `test`: rows no conformal setting calibrates on. `all`: every row.
    """
    chosen = chosen_rows(is_calibration, rows)
    return decompose_brier(forecast, outcome, chosen, weights, over, 1).uncertainty
