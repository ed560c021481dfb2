"""Calibration error on questions without an answer. CertainlyUncertain: Chandu et al., 2025 (ICLR)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights
from qualm.runners.plugins.metrics.ece import ece
from qualm.runners.plugins.metrics.ece import interval as interval_of_ece
from qualm.runners.plugins.metrics.ece import null_test as null_test_of_ece

CITES = ["chandu2025certainlyuncertain"]
META = MetricMeta(higher_is_better=False, interval="own", over="gt_is_idk", compared_by="ece_idk_debiased", row_by_row=True)


def ece_idk(
    confidence: Floats,
    correct: Floats,
    gt_is_idk: Floats,
    weights: Weights,
    *,
    bins: Annotated[int, Ge(1)] = 15,
    convention: Literal["torchmetrics", "guo", "lm_polygraph", "netcal"] = "torchmetrics",
) -> Floats:
    """ECE of confidence against correctness, over the unanswerable questions only.

    ECE of confidence against [correct > 0] over rows whose truth is "I don't know", in [0, 1], lower is better. The paper
    names neither bins nor subset; this is the reading that its tables allow. Undefined without unanswerable questions.

    Args:
        bins: Number of bins.
        convention: To which bin an edge belongs; see `runners/scoring/binning.py`.

    Raises:
        ValueError: a confidence outside [0, 1].
    """
    right = (correct > 0).astype(np.float64)
    return ece(confidence, right, 1 - gt_is_idk, weights, bins=bins, convention=convention)


def interval(
    confidence: Floats,
    correct: Floats,
    gt_is_idk: Floats,
    group: NDArray[np.int64],
    level: float,
    *,
    bins: int = 15,
    convention: str = "torchmetrics",
) -> tuple[float, float]:
    """Return the (low, high) interval of the error in these bins, inverting a test at `level`."""
    return interval_of_ece(confidence, (correct > 0).astype(np.float64), 1 - gt_is_idk, group, level, bins=bins, convention=convention)


def null_test(
    confidence: Floats, correct: Floats, gt_is_idk: Floats, group: NDArray[np.int64], *, bins: int = 15, convention: str = "torchmetrics"
) -> tuple[float, str]:
    """Return (p-value of the error under calibrated answers, hypothesis in words)."""
    return null_test_of_ece(confidence, (correct > 0).astype(np.float64), 1 - gt_is_idk, group, bins=bins, convention=convention)


def bounds() -> tuple[float, float]:
    """Return the lowest and highest possible value, 0 and 1."""
    return 0.0, 1.0
