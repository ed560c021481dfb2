"""Equal-width confidence bins, by each of the four conventions in use.

The same confidences give different calibration errors under each, which is why a convention is always named.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def bin_of(confidence: Floats, bins: int, convention: str) -> NDArray[np.int64]:
    """The bin of each confidence, 0..bins, or -1 for none. Bin i spans i/bins to (i+1)/bins.

    | convention | bins are | used by |
    |---|---|---|
    | torchmetrics | [low, high), and exactly 1 in bin number `bins`, its own | torchmetrics, VLM-Uncertainty-Bench |
    | guo | (low, high], and exactly 0 in none | Guo et al. 2017 code, reliable-VQA |
    | lm_polygraph | (low, high], the first closed on both sides | lm-polygraph |
    | netcal | [low, high), the last closed on both sides | netcal |

    A decimal that is an edge falls where the library puts it: netcal and lm-polygraph take numpy's `linspace`, whose 0.6 of
    five bins lies one bit above 0.6; the other two work in float32, where such edges are met exactly.

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
