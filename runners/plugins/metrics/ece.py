"""Expected calibration error. Naeini, Cooper, Hauskrecht, 2015; Guo, Pleiss, Sun, Weinberger, 2017."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.grouped_weights import sum_bins
from qualm.runners.contracts.metrics import Floats, Weights, chosen_rows, ratio
from qualm.runners.scoring.binning import Calibrated, bin_membership, bin_of, calibration_error_interval
from qualm.runners.scoring.measuring.bounded_means import mean_gap_interval

CITES = ["naeini2015obtaining", "guo2017calibration"]
META = MetricMeta(higher_is_better=False, interval="own", compared_by="ece_debiased", row_by_row=True)


def ece(
    confidence: Floats,
    correct: Floats,
    is_calibration: Floats,
    weights: Weights,
    *,
    bins: Annotated[int, Ge(1)] = 15,
    convention: Literal["torchmetrics", "guo", "lm_polygraph", "netcal"] = "torchmetrics",
    rows: Literal["test", "all"] = "test",
) -> Floats:
    """Gap between mean confidence and accuracy, averaged over equal-width bins of confidence.

    ECE = sum over bins of |B|/n * |mean correct(B) - mean confidence(B)|, in [0, 1], lower is better. Empty bins add 0.
    Undefined without rows. A biased estimate: it grows with the number of bins and shrinks with n. Its interval is for the error that these
    bins would have with infinitely many questions, and so reaches down to 0 where perfect calibration is not rejected.

    Args:
        bins: Number of bins.
        convention: To which bin an edge belongs; see `runners/scoring/binning.py`. VLM-Uncertainty-Bench used torchmetrics.
        rows: `test`: rows no conformal setting calibrates on. `all`: every row, as VLM-Uncertainty-Bench published.

    Raises:
        ValueError: a confidence outside [0, 1].
    """
    chosen = chosen_rows(is_calibration, rows)
    gaps = sum_bins(weights, chosen * (correct - confidence), bin_of(confidence, bins, convention), bins + 1)
    return ratio(np.abs(gaps).sum(axis=1), weights @ chosen)


def interval(
    confidence: Floats,
    correct: Floats,
    is_calibration: Floats,
    group: NDArray[np.int64],
    level: float,
    *,
    bins: int = 15,
    convention: str = "torchmetrics",
    rows: str = "test",
) -> tuple[float, float]:
    """Return the (low, high) interval of the error with these bins, by test inversion."""
    chosen = np.flatnonzero(chosen_rows(is_calibration, rows))
    gap = (correct - confidence)[chosen, None] / len(chosen)
    distance = mean_gap_interval(confidence[chosen], correct[chosen], group[chosen], level)
    return calibration_error_interval(bin_membership(confidence[chosen], bins, convention) * gap, group[chosen], level, distance)


def null_test(
    confidence: Floats,
    correct: Floats,
    is_calibration: Floats,
    group: NDArray[np.int64],
    *,
    bins: int = 15,
    convention: str = "torchmetrics",
    rows: str = "test",
) -> tuple[float, str]:
    """Return (p-value of the error under calibrated answers, hypothesis in words)."""
    chosen = np.flatnonzero(chosen_rows(is_calibration, rows))
    as_if = Calibrated.fit(confidence[chosen], correct[chosen], group[chosen])
    return as_if.null_test(correct[chosen], bin_membership(confidence[chosen], bins, convention))


def bounds() -> tuple[float, float]:
    """Return the lowest and highest possible value, 0 and 1."""
    return 0.0, 1.0
