"""Calibration error over bins that hold equally many answers. Nguyen, O'Connor, 2015 (EMNLP); Nixon and others, 2019 (CVPR workshops)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, chosen_rows, ratio
from qualm.runners.scoring.binning import Calibrated

CITES = ["nguyen2015posterior", "nixon2019measuring"]
ALSO_KNOWN_AS = ["adaptive_ece", "ace", "adaece", "adaptive_calibration_error", "equal_mass_ece", "ece_equal_mass"]
META = MetricMeta(
    higher_is_better=False,
    interval="none",
    why_no_interval="the error is biased upwards, and resampling adds a bias of unknown size",
    compared_by="ece_debiased",
)


def ece_adaptive(
    confidence: Floats,
    correct: Floats,
    is_calibration: Floats,
    weights: Weights,
    *,
    bins: Annotated[int, Ge(1)] = 15,
    rows: Literal["test", "all"] = "test",
) -> Floats:
    """Gap between mean confidence and accuracy, averaged over bins of confidence that hold equally many answers.

    Sum over bins of |B|/n * |mean correct(B) - mean confidence(B)|, in [0, 1], lower is better. An answer is in bin floor(bins * s / n),
    s being how many of the n answers are less confident: bins of n/bins answers where confidences differ, and equal confidences in one bin.
    Confidences of models crowd near 1, where the equal-width bins of `ece` are few. A biased estimate: it grows with the number of bins
    and shrinks with n. Undefined without rows.

    Args:
        bins: Number of bins.
        rows: `test`: rows no conformal setting calibrates on. `all`: every row.
    """
    chosen = np.flatnonzero(chosen_rows(is_calibration, rows))
    inside = np.zeros((len(correct), bins))
    inside[chosen, _bin(confidence[chosen], bins)] = (correct - confidence)[chosen]
    counted = np.zeros(len(correct))
    counted[chosen] = 1.0
    sums = weights @ np.column_stack([inside, counted])
    return ratio(np.abs(sums[:, :-1]).sum(axis=1), sums[:, -1])


def null_test(
    confidence: Floats,
    correct: Floats,
    is_calibration: Floats,
    group: NDArray[np.int64],
    *,
    bins: int = 15,
    rows: str = "test",
) -> tuple[float, str]:
    """Return (p-value of the error under calibrated answers, hypothesis in words)."""
    chosen = np.flatnonzero(chosen_rows(is_calibration, rows))
    as_if = Calibrated.fit(confidence[chosen], correct[chosen], group[chosen])
    place = _bin(confidence[chosen], bins)
    return as_if.null_test(correct[chosen], (place[:, None] == np.unique(place)).astype(np.float64))


def _bin(confidence: Floats, bins: int) -> NDArray[np.int64]:
    less = np.searchsorted(np.sort(confidence), confidence, side="left")
    return less * bins // max(1, len(confidence))
