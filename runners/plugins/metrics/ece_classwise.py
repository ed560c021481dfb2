"""Classwise calibration error. Kull et al., 2019 (NeurIPS); as static calibration error Nixon et al., 2019."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.grouped_weights import sum_bins
from qualm.runners.contracts.metrics import Floats, Weights, chosen_rows, ratio
from qualm.runners.plugins.metrics._brier import events
from qualm.runners.scoring.binning import bin_of

CITES = ["kull2019beyond"]
ALSO_KNOWN_AS = ["classwise_ece", "class_wise_ece", "static_calibration_error", "sce", "cwece"]
META = MetricMeta(
    higher_is_better=False,
    interval="none",
    why_no_interval="with a set of bins for every option chance adds even more than to `ece`, and resamples add to that",
    row_by_row=True,
)


def ece_classwise(
    option_probabilities: Floats,
    right_option: Floats,
    n_options: Floats,
    is_calibration: Floats,
    weights: Weights,
    *,
    bins: Annotated[int, Ge(1)] = 15,
    convention: Literal["torchmetrics", "guo", "lm_polygraph", "netcal"] = "torchmetrics",
    rows: Literal["test", "all"] = "test",
) -> Floats:
    """Calibration error of the probabilities of all options, not only of the likeliest one.

    Mean over options k of sum over bins of p_k of |B|/n_k * |share of B where k is right - mean p_k of B|, n_k being the questions that
    have an option k; in [0, 1], lower is better. `ece` sees the largest probability alone, this one also a model that always favours a
    letter. Most options of most questions have a probability near 0, so values are smaller than those of `ece`. A biased estimate: it
    grows with the number of bins and of options and shrinks with n. Undefined without rows. Multiple choice only.

    Args:
        bins: Number of bins for each option.
        convention: To which bin an edge belongs; see `runners/scoring/binning.py`.
        rows: `test`: rows no conformal setting calibrates on. `all`: every row.

    Raises:
        ValueError: a probability outside [0, 1].
    """
    chosen = chosen_rows(is_calibration, rows)
    probabilities, outcomes = events(option_probabilities, right_option, "options")
    exists = (np.arange(probabilities.shape[1]) < n_options[:, None]) * chosen[:, None]
    count = weights @ exists
    gaps = [
        np.abs(sum_bins(weights, e * (y - p), bin_of(p, bins, convention), bins + 1)).sum(axis=1)
        for p, y, e in zip(probabilities.T, outcomes.T, exists.T, strict=True)
    ]
    of_option = ratio(np.column_stack(gaps), count)
    held = count > 0
    return ratio(np.where(held, of_option, 0.0).sum(axis=1), held.sum(axis=1).astype(np.float64))
