"""Calibration error on unanswerable questions, without what chance adds: `ece_debiased` over the rows of `ece_idk`."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights
from qualm.runners.plugins.metrics.ece_debiased import ece_debiased

CITES = ["chandu2025certainlyuncertain", "kumar2019verified"]
META = MetricMeta(
    higher_is_better=False,
    interval="none",
    why_no_interval="as of `ece_debiased`; the interval of `ece_idk` shows which errors are possible",
    over="gt_is_idk",
    compared_by="ece_idk_debiased",
)


def ece_idk_debiased(
    confidence: Floats,
    correct: Floats,
    gt_is_idk: Floats,
    group_of_group: Floats,
    weights: Weights,
    *,
    bins: Annotated[int, Ge(1)] = 15,
    convention: Literal["torchmetrics", "guo", "lm_polygraph", "netcal"] = "torchmetrics",
    squared: bool = False,
) -> Floats:
    """Root-mean-square calibration error over unanswerable questions, minus its bias.

    In [0, 1], lower is better; see `ece_debiased` and `ece_idk`. Models are compared on `ece_idk` by its square. Undefined without a bin
    that holds two groups of unanswerable questions.

    Args:
        bins: Number of bins.
        convention: To which bin an edge belongs; see `runners/scoring/binning.py`.
        squared: The square, which is unbiased and may be negative.

    Raises:
        ValueError: a confidence outside [0, 1].
    """
    right = (correct > 0).astype(np.float64)
    return ece_debiased(confidence, right, 1 - gt_is_idk, group_of_group, weights, bins=bins, convention=convention, squared=squared)


def bounds() -> tuple[float, float]:
    """Return the bounds of the error, 0 and 1; an estimate of its square may be below 0."""
    return 0.0, 1.0
