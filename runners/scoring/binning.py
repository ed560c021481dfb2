"""Equal-width confidence bins, by each of the four conventions in use.

The same confidences give different calibration errors under each, which is why a convention is always named.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DRAWS = 1000
"""Of what gaps could be by chance, and the seed of these draws."""


def bin_of(confidence: Floats, bins: int, convention: str) -> NDArray[np.int64]:
    """The bin of each confidence, 0..bins, or -1 for none. Bin i spans i/bins to (i+1)/bins.

    | convention | bins are | used by |
    |---|---|---|
    | torchmetrics | [low, high), and exactly 1 in bin number `bins`, its own | torchmetrics, VLM-Uncertainty-Bench |
    | guo | (low, high], and exactly 0 in none | Guo et al. 2017 code, reliable-VQA |
    | lm_polygraph | (low, high], the first closed on both sides | lm-polygraph |
    | netcal | [low, high), the last closed on both sides | netcal |

    Of netcal and lm-polygraph a decimal that is an edge falls where the library puts it: both take numpy's `linspace`, whose 0.6 of
    five bins lies one bit above 0.6. Of the other two it falls where a reader expects it: an edge is i/bins rounded once, so 0.2 is
    in bin 3 of 15. torchmetrics' own edges are a running sum in the precision of what it is given: in float32 it puts 0.2, 0.4 and
    7/15 of fifteen bins one lower, in float64 11/15. No confidence behind a published number lies on an edge.

    Raises:
        ValueError: a confidence outside [0, 1], fewer than one bin, or an unknown convention.
    """
    if bins < 1:
        raise ValueError(f"bins: expected at least 1, got {bins}")
    if len(confidence) and not (confidence.min() >= 0 and confidence.max() <= 1):
        raise ValueError(f"confidence: expected numbers in [0, 1], got {confidence.min()} to {confidence.max()}")
    edges = np.linspace(0, 1, bins + 1) if convention in ("netcal", "lm_polygraph") else np.arange(bins + 1) / bins
    if convention == "torchmetrics":
        return np.searchsorted(edges, confidence, side="right") - 1
    if convention == "netcal":
        return np.minimum(np.searchsorted(edges, confidence, side="right") - 1, bins - 1)
    if convention == "guo":
        return np.searchsorted(edges, confidence, side="left") - 1
    if convention == "lm_polygraph":
        return np.maximum(np.searchsorted(edges, confidence, side="left") - 1, 0)
    raise ValueError(f"convention: expected torchmetrics, guo, lm_polygraph or netcal, got {convention!r}")


def members(confidence: Floats, bins: int, convention: str) -> Floats:
    """(n, k): 1 where a row is in one of the k bins that hold any row."""
    place = bin_of(confidence, bins, convention)
    inside: Floats = (place[:, None] == np.unique(place[place >= 0])).astype(np.float64)
    return inside


def calibration_error_ends(gaps: Floats, group: NDArray[np.int64], level: float) -> tuple[float, float]:
    """The binned calibration errors that a plain one could come from: those under which it is neither too small nor too large.

    The plain error, a sum of absolute values, is too large by chance alone, the more so the better the calibration. So the test is
    inverted (Carpenter, 1999) along gaps lambda d, d being those of the sample: the error lambda sum |d| is in the interval if the plain
    one lies between the outer quantiles of sum |lambda d + e|, e normal with the covariance of the gaps' sums over groups. The low end is
    0 where perfect calibration is not refuted. What is held is the error of these bins with endless questions.

    Args:
        gaps: (n, k) correctness less confidence of each row, over the number of rows, in the column of its bin.
        group: (n,) the group of each row.
        level: for instance .95.
    """
    from qualm.runners.scoring.limits import critical

    codes, place = np.unique(group, return_inverse=True)
    sums = np.zeros((len(codes), gaps.shape[1]))
    np.add.at(sums, place, gaps)
    total = sums.sum(axis=0)
    apart = sums - sums.mean(axis=0)
    widen = critical(level, len(codes) - 1) / critical(level, np.inf)
    draws = np.random.default_rng(DRAWS).normal(size=(DRAWS, len(codes))) @ apart * (widen / np.sqrt(1 - 1 / len(codes)))
    observed, tail = float(np.abs(total).sum()), (1 - level) / 2

    def share_above(factor: float) -> float:
        return float((np.abs(factor * total + draws).sum(axis=1) >= observed - 1e-12).mean())

    return observed * _crossing(share_above, tail), observed * _crossing(share_above, 1 - tail)


def _crossing(rising: Callable[[float], float], level: float) -> float:
    """Where a rising function reaches a level, from 0 on; 0 where it starts above."""
    low, high = 0.0, 1.0
    if rising(0.0) >= level:
        return 0.0
    while rising(high) < level and high < 1e6:
        high *= 2
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < level else (low, middle)
    return (low + high) / 2
