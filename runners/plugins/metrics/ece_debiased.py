"""Calibration error without what chance adds. Kumar, Liang, Ma, 2019 (NeurIPS), the debiased l2 error; here over pairs of groups."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, chosen_rows, ratio
from qualm.runners.scoring.binning import bin_membership

CITES = ["kumar2019verified"]
META = MetricMeta(
    higher_is_better=False,
    interval="none",
    why_no_interval="for calibrated models the estimate is mostly 0; the interval of `ece` shows which errors are possible",
    compared_by="ece_debiased",
)


def ece_debiased(
    confidence: Floats,
    correct: Floats,
    is_calibration: Floats,
    group_of_group: Floats,
    weights: Weights,
    *,
    bins: Annotated[int, Ge(1)] = 15,
    convention: Literal["torchmetrics", "guo", "lm_polygraph", "netcal"] = "torchmetrics",
    rows: Literal["test", "all"] = "test",
    squared: bool = False,
) -> Floats:
    """Root-mean-square calibration error over bins, minus its bias by chance.

    sqrt(max(0, S)), S = sum over bins of |B|/n * mean of e_i e_j over pairs in B of two different groups, e = correct - confidence;
    in [0, 1], lower is better. Each product estimates the square of B's own error, so S is unbiased for every n (except for bins too small
    for a pair, which are left out), also where answers of one group are correlated. For a calibrated model the root is a little above 0, in
    the order of 1/sqrt(n), since negative S are cut off. As a quadratic mean it is at least as large as the error that `ece` estimates.
    Undefined without a bin that holds two groups. A group with an unscored answer is left out whole.

    Args:
        bins: Number of bins.
        convention: To which bin an edge belongs; see `runners/scoring/binning.py`. VLM-Uncertainty-Bench used torchmetrics.
        rows: `test`: rows no conformal setting calibrates on. `all`: every row.
        squared: S itself, which may be negative: to average over models or datasets.

    Raises:
        ValueError: a confidence outside [0, 1].
    """
    chosen = chosen_rows(is_calibration, rows)
    inside = bin_membership(confidence, bins, convention) * chosen[:, None]
    gap = inside * (correct - confidence)[:, None]
    gaps, count = np.split(weights @ np.hstack([gap, inside]), 2, axis=1)
    # A group that is drawn twice is no pair of groups with itself either.
    alike = [gap * _group_sums(gap, group_of_group), inside * _group_sums(inside, group_of_group)]
    gaps_alike, pairs_alike = np.split(np.square(np.asarray(weights, dtype=np.float64)) @ np.hstack(alike), 2, axis=1)
    pairs = count**2 - pairs_alike
    counted = np.where(pairs > 0, count, 0.0)
    product = np.divide(gaps**2 - gaps_alike, pairs, out=np.zeros_like(pairs), where=pairs > 0)
    square = ratio((counted * product).sum(axis=1), counted.sum(axis=1))
    return square if squared else np.sqrt(np.clip(square, 0.0, 1.0))


def _group_sums(columns: Floats, groups: Floats) -> Floats:
    """Return (n, k) sums of `columns` (n, k) over all rows of each row's group."""
    codes, place = np.unique(groups, return_inverse=True)
    sums = np.zeros((len(codes), columns.shape[1]))
    np.add.at(sums, place, columns)
    return np.asarray(sums[place])


def bounds() -> tuple[float, float]:
    """Return the bounds of the error, 0 and 1; an estimate of its square may be below 0."""
    return 0.0, 1.0
