"""Maximum calibration error. Naeini, Cooper, Hauskrecht, 2015; Guo, Pleiss, Sun, Weinberger, 2017."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.grouped_weights import sum_bins
from qualm.runners.contracts.metrics import Floats, Weights, chosen_rows, ratio
from qualm.runners.scoring.binning import bin_of

CITES = ["naeini2015obtaining", "guo2017calibration"]
META = MetricMeta(
    higher_is_better=False,
    interval="none",
    why_no_interval="the largest of many gaps is biased upwards, and resampling adds a bias of unknown size",
    compared_by="ece_debiased",
    row_by_row=True,
)


def mce(
    confidence: Floats,
    correct: Floats,
    is_calibration: Floats,
    weights: Weights,
    *,
    bins: Annotated[int, Ge(1)] = 15,
    convention: Literal["torchmetrics", "guo", "lm_polygraph", "netcal"] = "torchmetrics",
    rows: Literal["test", "all"] = "test",
    min_count: Annotated[int, Ge(1)] = 1,
) -> Floats:
    """Largest gap between mean confidence and accuracy in any bin of confidence.

    MCE = max over bins of |mean correct(B) - mean confidence(B)|, in [0, 1], lower is better. One sample alone in a bin
    can decide it, so read it beside the reliability diagram, or set `min_count`. Undefined if no bin has that many.

    Args:
        bins: Number of bins.
        convention: To which bin an edge belongs; see `runners/scoring/binning.py`. VLM-Uncertainty-Bench used torchmetrics.
        rows: `test`: rows no conformal setting calibrates on. `all`: every row, as VLM-Uncertainty-Bench published.
        min_count: Bins with fewer rows are passed over.

    Raises:
        ValueError: a confidence outside [0, 1].
    """
    chosen = chosen_rows(is_calibration, rows)
    place = bin_of(confidence, bins, convention)
    count, gap = (sum_bins(weights, column, place, bins + 1) for column in (chosen, chosen * (correct - confidence)))
    largest = np.max(np.where(count >= min_count, ratio(np.abs(gap), count), -1.0), axis=1, initial=-1.0)
    return np.where(largest < 0, np.nan, largest)
