"""Kolmogorov-Smirnov calibration error, without bins. Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu, Hartley, 2021 (ICLR)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, chosen_rows, ratio
from qualm.runners.scoring.binning import Calibrated
from qualm.runners.scoring.ranking import tie_sums

CITES = ["gupta2021calibration"]
ALSO_KNOWN_AS = ["ks_error", "ks_ece", "ks", "kolmogorov_smirnov_calibration_error"]
META = MetricMeta(
    higher_is_better=False,
    interval="none",
    why_no_interval="the largest of many gaps is biased upwards, and resampling adds a bias of unknown size",
    compared_by="ece_debiased",
)
POINTS = 100


def ks_calibration_error(
    confidence: Floats, correct: Floats, is_calibration: Floats, weights: Weights, *, rows: Literal["test", "all"] = "test"
) -> Floats:
    """Largest gap between cumulative mean confidence and correctness, sorted by confidence.

    max over c of |sum over answers of confidence <= c of (correct - confidence)| / n, in [0, 1], lower is better. No bins to choose;
    gaps of opposite sign at different confidences add up in `ece` and partly cancel here, so it is never above `ece` with fine bins. Equal
    confidences are taken together. Too large by chance, by about 1/sqrt(n). Undefined without rows.

    Args:
        rows: `test`: rows no conformal setting calibrates on. `all`: every row.
    """
    if not len(correct):
        return np.full(weights.shape[0], np.nan)
    chosen = chosen_rows(is_calibration, rows)
    gap, count = tie_sums(confidence, [(correct - confidence) * chosen, chosen], weights)
    return ratio(np.abs(np.cumsum(gap, axis=1)).max(axis=1), count.sum(axis=1))


def null_test(
    confidence: Floats, correct: Floats, is_calibration: Floats, group: NDArray[np.int64], *, rows: str = "test"
) -> tuple[float, str]:
    """Return (p-value of perfect calibration at up to 100 confidences, hypothesis in words)."""
    chosen = np.flatnonzero(chosen_rows(is_calibration, rows))
    as_if = Calibrated.fit(confidence[chosen], correct[chosen], group[chosen])
    places = np.unique(confidence[chosen])
    places = places[np.unique(np.linspace(0, len(places) - 1, min(POINTS, len(places))).round().astype(int))]
    return as_if.null_test(correct[chosen], (confidence[chosen, None] <= places).astype(np.float64), np.max)
