"""The Brier score. Brier, 1950 (Monthly Weather Review)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, chosen_rows, mean
from qualm.runners.plugins.metrics._brier import each_outcome, events
from qualm.runners.scoring.measuring.bounded_means import mean_loss_interval

CITES = ["brier1950verification"]
ALSO_KNOWN_AS = ["brier_score", "brier_loss"]
META = MetricMeta(higher_is_better=False, interval="own", row_by_row=True)
NEEDS = {
    "forecast": {"over": {"answer": "confidence", "options": "option_probabilities"}},
    "outcome": {"over": {"answer": "correct", "options": "right_option"}},
}


def brier(
    forecast: Floats,
    outcome: Floats,
    is_calibration: Floats,
    weights: Weights,
    *,
    over: Literal["answer", "options"] = "answer",
    rows: Literal["test", "all"] = "test",
) -> Floats:
    """Mean squared difference between probabilities and outcomes: calibration and discrimination in one number.

    `answer`: mean (confidence - correct)^2, in [0, 1]. `options`: mean over questions of the sum over options of (p_k - [k is right])^2,
    in [0, 2], as Brier has it; half of it is the score of some libraries. Lower is better; a proper score: on average nothing is better
    than the true probabilities. `brier_reliability` - `brier_resolution` + `brier_uncertainty` is this number. Undefined without rows.

    Args:
        over: The confidence in the answer, or the probabilities of all options (multiple choice only).
        rows: `test`: rows no conformal setting calibrates on. `all`: every row.
    """
    chosen = chosen_rows(is_calibration, rows)
    return mean(_losses(forecast, outcome, over), chosen, weights)


def interval(
    forecast: Floats,
    outcome: Floats,
    is_calibration: Floats,
    group: NDArray[np.int64],
    level: float,
    *,
    over: str = "answer",
    rows: str = "test",
) -> tuple[float, float]:
    """Return the (low, high) interval of the mean loss, from each row's possible losses."""
    chosen = chosen_rows(is_calibration, rows) > 0
    forecast, outcome = forecast[chosen], outcome[chosen]
    possible = np.stack([_losses(forecast, each, over) for each in each_outcome(forecast, over)])
    return mean_loss_interval(_losses(forecast, outcome, over), possible.min(axis=0), possible.max(axis=0), group[chosen], level)


def _losses(forecast: Floats, outcome: Floats, over: str) -> Floats:
    forecasts, outcomes = events(forecast, outcome, over)
    losses: Floats = ((forecasts - outcomes) ** 2).sum(axis=1)
    return losses


def bounds(*, over: str = "answer") -> tuple[float, float]:
    """Return (lowest, highest) possible score: 0, and the largest squared distance."""
    return 0.0, 1.0 if over == "answer" else 2.0
