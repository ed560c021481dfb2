"""Effects of a perturbation, per sample and growing with strength: changed answers, distances of images."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import PIL.Image

from qualm.runners.data.agreement import wilson
from qualm.runners.data.removal_quality import ssim
from qualm.runners.review.search import Reading
from qualm.runners.runtime.precision import round_result

SHARE = "share"


@dataclass(frozen=True)
class Goal:
    """Share of changed answers, or distance of images, that a strength search aims at."""

    name: str
    target: float
    """Mean over samples, in the search's unit."""
    title: str
    display: Callable[[float], float] = float
    """Convert the search's number to the shown unit."""

    @property
    def slug(self) -> str:
        return f"{self.name}-{self.display(self.target):g}"


def dissimilarity(before: PIL.Image.Image, after: PIL.Image.Image) -> float:
    """Return 1 - SSIM, averaged over pixels and channels: 0 for equal images, at most 2."""
    return max(0.0, 1.0 - float(ssim(np.asarray(before), np.asarray(after)).mean()))


def squared_error(before: PIL.Image.Image, after: PIL.Image.Image) -> float:
    """Return the mean squared error over pixels and channels, as a share of 255 squared."""
    difference = np.asarray(before, dtype=np.float64) - np.asarray(after, dtype=np.float64)
    return float((difference**2).mean()) / 255**2


def psnr(error: float) -> float:
    """Return the PSNR in dB of a mean squared error of values from 0 to 1; infinite for 0.

    >>> psnr(0.01)
    20.0
    """
    return -10 * math.log10(error) if error > 0 else math.inf


DISTANCES: dict[str, Callable[[PIL.Image.Image, PIL.Image.Image], float]] = {"1-ssim": dissimilarity, "psnr": squared_error}


def share_goal(share: float) -> Goal:
    return Goal(SHARE, share, "share of answers that change")


def distance_goal(metric: str, value: float) -> Goal:
    """Return the Goal of an image distance (`1-ssim` or `psnr`); ValueError if out of range."""
    if metric not in DISTANCES:
        raise ValueError(f"expected a distance of {', '.join(DISTANCES)}, got '{metric}'")
    if metric == "psnr":
        if not 0 < value < 100:
            raise ValueError(f"psnr: expected decibels in (0, 100), got {value:g}")
        return Goal(metric, 10 ** (-value / 10), "PSNR, dB", psnr)
    if not 0 < value < 2:
        raise ValueError(f"{metric}: expected a value in (0, 2), got {value:g}")
    return Goal(metric, value, "1 - SSIM")


def share_reading(strength: float, changed: Sequence[bool], n_left_out: int) -> Reading:
    """Return a Reading of the share of changed answers; NaN, in [0, 1], if `changed` is empty."""
    n, k = len(changed), int(sum(changed))
    low, high = wilson(k, n) or (0.0, 1.0)
    return Reading(strength, k / n if n else math.nan, round_result(low), round_result(high), n, n_left_out)


def mean_reading(strength: float, values: Sequence[float], n_left_out: int) -> Reading:
    """Return the mean of values with its normal 95% interval, cut at 0; NaN mean without any.

    The interval has no upper end for fewer than two values.
    """
    n = len(values)
    if not n:
        return Reading(strength, math.nan, 0.0, math.inf, 0, n_left_out)
    mean = float(np.mean(values))
    half = 1.96 * float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return Reading(strength, mean, max(0.0, mean - half), mean + half, n, n_left_out)
