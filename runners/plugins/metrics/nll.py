"""Negative log-likelihood, the logarithmic score. Good, 1952 (Journal of the Royal Statistical Society B)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Lt
from numpy.typing import NDArray

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, chosen_rows, mean
from qualm.runners.plugins.metrics._brier import each_outcome, events
from qualm.runners.scoring.measuring.bounded_means import mean_loss_interval

CITES = ["good1952rational"]
ALSO_KNOWN_AS = ["log_loss", "negative_log_likelihood", "cross_entropy", "logarithmic_score"]
META = MetricMeta(higher_is_better=False, interval="own")
NEEDS = {
    "forecast": {"over": {"answer": "confidence", "options": "option_probabilities"}},
    "outcome": {"over": {"answer": "correct", "options": "right_option"}},
}


def nll(
    forecast: Floats,
    outcome: Floats,
    is_calibration: Floats,
    weights: Weights,
    *,
    over: Literal["answer", "options"] = "answer",
    floor: Annotated[float, Ge(0), Lt(0.5)] = 2.220446049250313e-16,
    rows: Literal["test", "all"] = "test",
) -> Floats:
    """Mean negative log-likelihood of the outcomes (log loss, cross-entropy), in nats.

    `answer`: -mean(correct ln confidence + (1 - correct) ln(1 - confidence)). `options`: -mean ln p of the right option. From 0, no upper
    bound, lower is better; a proper score, in which one sure and wrong answer weighs as much as hundreds of others. Undefined without rows,
    and with `floor: 0` where an outcome had probability 0.

    Args:
        over: The confidence in the answer, or the probability of the right option (multiple choice only).
        floor: Probabilities are taken to be no nearer to 0 and 1 than this; by default as scikit-learn's `log_loss` has it, so that an
            answer that is wrong with confidence 1 costs 36 nats.
        rows: `test`: rows no conformal setting calibrates on. `all`: every row.
    """
    chosen = chosen_rows(is_calibration, rows)
    losses = _losses(forecast, outcome, over, floor)
    if not np.isfinite(losses[chosen > 0]).all():
        return np.full(weights.shape[0], np.nan)
    return mean(np.where(chosen > 0, losses, 0.0), chosen, weights)


def why_undefined(
    forecast: Floats,
    outcome: Floats,
    is_calibration: Floats,
    *,
    over: str = "answer",
    floor: float = 2.220446049250313e-16,
    rows: str = "test",
) -> str:
    """Return the reason for an undefined value; called only where the value is NaN."""
    return "an outcome had probability 0; `floor` sets the least probability that counts"


def interval(
    forecast: Floats,
    outcome: Floats,
    is_calibration: Floats,
    group: NDArray[np.int64],
    level: float,
    *,
    over: str = "answer",
    floor: float = 2.220446049250313e-16,
    rows: str = "test",
) -> tuple[float, float]:
    """Return the (low, high) interval of the mean loss; infinite if a possible loss is."""
    chosen = chosen_rows(is_calibration, rows) > 0
    forecast, outcome = forecast[chosen], outcome[chosen]
    possible = np.stack([_losses(forecast, each, over, floor) for each in each_outcome(forecast, over)])
    if not np.isfinite(possible).all():
        return -np.inf, np.inf
    return mean_loss_interval(_losses(forecast, outcome, over, floor), possible.min(axis=0), possible.max(axis=0), group[chosen], level)


def _losses(forecast: Floats, outcome: Floats, over: str, floor: float) -> Floats:
    forecasts, outcomes = events(np.clip(forecast, floor, 1 - floor), outcome, over)
    if over == "options":
        return _surprise((forecasts * outcomes).sum(axis=1))
    f, y = forecasts[:, 0], outcomes[:, 0]
    with np.errstate(invalid="ignore"):  # 0 * inf, which is not taken
        return np.where(y > 0, y * _surprise(f), 0.0) + np.where(y < 1, (1 - y) * _surprise(1 - f), 0.0)


def _surprise(probability: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(probability))


def bounds(*, floor: float = 2.220446049250313e-16) -> tuple[float, float]:
    """Return the lowest and highest possible loss: 0, and that of probability `floor`."""
    return 0.0, float(-np.log(floor)) if floor > 0 else np.inf
