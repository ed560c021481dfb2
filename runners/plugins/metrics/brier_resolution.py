"""The discrimination part of the Brier score. Murphy, 1973; its exact form Stephenson, Coelho, Jolliffe, 2008 (Weather and Forecasting)."""

from typing import Annotated, Literal

from annotated_types import Ge

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, chosen_rows
from qualm.runners.plugins.metrics._brier import decompose_brier

CITES = ["murphy1973vector", "stephenson2008extra"]
ALSO_KNOWN_AS = ["resolution", "murphy_resolution"]
META = MetricMeta(
    higher_is_better=True,
    interval="none",
    why_no_interval="it is biased upwards, and resampling adds to the bias; `brier` has an interval for the whole score",
    row_by_row=True,
)
NEEDS = {
    "forecast": {"over": {"answer": "confidence", "options": "option_probabilities"}},
    "outcome": {"over": {"answer": "correct", "options": "right_option"}},
}


def brier_resolution(
    forecast: Floats,
    outcome: Floats,
    is_calibration: Floats,
    weights: Weights,
    *,
    over: Literal["answer", "options"] = "answer",
    bins: Annotated[int, Ge(1)] = 15,
    rows: Literal["test", "all"] = "test",
    form: Literal["exact", "murphy"] = "exact",
) -> Floats:
    """Squared gap between a bin's correctness and that of all answers, averaged over bins.

    `murphy`: sum over bins of |B|/n * (mean correct(B) - mean correct)^2, in [0, `brier_uncertainty`]. `exact`: less the variance of
    confidence within bins, plus twice its covariance with correctness there, so that reliability - resolution + uncertainty is the
    Brier score to the last digit; with Murphy's form that holds only up to these two, which are small where bins are narrow. Higher
    is better. Too large by chance. Undefined without rows.

    Args:
        over: The confidence in the answer, or the probabilities of all options, part by part and summed (multiple choice only).
        bins: Number of equal-width bins.
        rows: `test`: rows no conformal setting calibrates on. `all`: every row.
        form: Which of the two.

    Raises:
        ValueError: a probability outside [0, 1].
    """
    chosen = chosen_rows(is_calibration, rows)
    of = decompose_brier(forecast, outcome, chosen, weights, over, bins)
    return of.exact_resolution if form == "exact" else of.resolution
