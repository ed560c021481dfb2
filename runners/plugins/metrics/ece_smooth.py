"""Smooth calibration error, smECE. Blasiok, Nakkiran, 2024 (ICLR; preprint 2023)."""

import math
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, chosen_rows, ratio
from qualm.runners.scoring.binning import Calibrated, calibration_error_interval
from qualm.runners.scoring.measuring.bounded_means import mean_gap_interval

CITES = ["blasiok2024smooth"]
ALSO_KNOWN_AS = ["smooth_ece", "smece", "smooth_calibration_error"]
META = MetricMeta(higher_is_better=False, interval="own", compared_by="ece_debiased", row_by_row=True)
WAVES = 256
"""Cosines that stand for a smoothed function, of which the next one counts less than 1e-7 at MIN_BANDWIDTH; and places, the middles of as
many equal parts of [0, 1], at which gaps are summed up."""
MIN_BANDWIDTH = 0.0075
"""The smallest bandwidth."""
FIRST_WAVES = 48
"""Waves that are summed at first."""
OF_INTERVAL = 64
STEPS = 14
STRIDE = 8
"""Waves that are computed at once from earlier ones; so few steps that errors of rounding stay below 1e-12."""
TOGETHER = 128
"""Resamples that are smoothed at once."""
LAST_WAVE = 7 / math.pi
"""exp(-7^2 / 2) is 2e-11."""


def ece_smooth(
    confidence: Floats, correct: Floats, is_calibration: Floats, weights: Weights, *, rows: Literal["test", "all"] = "test"
) -> Floats:
    """Gap between confidence and correctness, smoothed over confidences: ECE without bins.

    smECE_s = integral over t in [0, 1] of |mean of (correct - confidence) K_s(t, confidence)|, K_s a Gaussian of bandwidth s reflected at
    0 and 1; the bandwidth is the one at which s = smECE_s, so nothing is left to choose, and a small change of confidences changes it
    little, where bins jump. In [0, 1], lower is better; between half and twice the distance to the nearest calibrated confidences, up to
    its square root. A biased estimate as `ece`, less so: 0 is never reached. No bandwidth is below 0.0075. Undefined without rows.

    The authors' relplot gives this to .001, to which it looks for the bandwidth. torch-uncertainty 0.13 smooths log odds by default
    (`kernel_type="logit"`): at confidence p its bandwidth is 4 p (1 - p) times as large, so that near 1 gaps of opposite sign cancel less
    and the error is larger; with `kernel_type="reflected"` it gives relplot's values.

    Args:
        rows: `test`: rows no conformal setting calibrates on. `all`: every row.
    """
    chosen = chosen_rows(is_calibration, rows)
    factor, count = (correct - confidence) * chosen, (weights @ chosen)[:, None]
    return _error_and_bandwidth(lambda first, last: ratio(weights @ _waves(factor, confidence, first, last), count))[0]


def _waves(factor: Floats, place: Floats, first: int, last: int) -> Floats:
    """Return (n, last - first) columns factor * cos(pi k place), k = first..last - 1."""
    columns, angle = np.empty((last - first, len(place))), np.pi * place
    columns[0] = factor * np.cos(first * angle)
    columns[1:2] = factor * np.cos((first + 1) * angle)
    # cos(k x) = 2 cos(m x) cos((k - m) x) - cos((k - 2 m) x), faster than a cosine
    for step, start, end in ((1, 2, min(2 * STRIDE, len(columns))), (STRIDE, 2 * STRIDE, len(columns))):
        twice = 2 * np.cos(step * angle)
        for k in range(start, end, step):
            to = min(k + step, end)
            np.multiply(columns[k - step : to - step], twice, out=columns[k:to])
            columns[k:to] -= columns[k - 2 * step : to - 2 * step]
    return columns.T


def _error_and_bandwidth(means: Callable[[int, int], Floats]) -> tuple[Floats, Floats]:
    """Return (B,) errors at the largest bandwidth below its error, and it; NaN without rows.

    The error falls where the bandwidth rises, so there is one such step. It is looked for where the line through the last two errors
    meets the bandwidth, and by halves where that does not end soon. The search begins at a bandwidth for which FIRST_WAVES waves are
    enough, and asks for more where the error there is not above the bandwidth.

    Args:
        means: gives (B, last - first) means of (correct - confidence) cos(pi k confidence), k = first..last - 1.
    """
    size = (1 - MIN_BANDWIDTH) / 2**STEPS
    spectrum = means(0, FIRST_WAVES)
    errors, low, high = np.full(len(spectrum), np.nan), np.zeros(len(spectrum), dtype=np.int64), np.full(len(spectrum), 2**STEPS)
    left = np.flatnonzero(~np.isnan(spectrum[:, 0]))
    # The error is no smaller than the mean gap.
    place = np.floor((np.maximum(np.abs(spectrum[:, 0]), LAST_WAVE / (FIRST_WAVES - 1.5)) - MIN_BANDWIDTH) / size)
    before = np.full((2, len(spectrum)), np.nan)
    for step in range(2 * STEPS):
        if not len(left):
            break
        if step >= STEPS:
            place[left] = (low[left] + high[left]) // 2
        here = np.clip(place[left], low[left] + (step > 0), high[left] - 1).astype(np.int64)
        bandwidth = MIN_BANDWIDTH + size * here
        needed = min(WAVES, math.ceil(1 + LAST_WAVE / bandwidth.min()))
        if (known := spectrum.shape[1]) < needed:
            spectrum = np.hstack([spectrum, means(known, needed)])
        at_bandwidth = smoothed(spectrum, bandwidth, left)
        above = at_bandwidth > bandwidth
        errors[left[above | (here == 0)]] = at_bandwidth[above | (here == 0)]
        low[left[above]], high[left[~above]] = here[above], np.maximum(here[~above], 1)
        # The next step's error is no larger, and so not above a bandwidth that is no smaller than this one's error.
        last = above & (at_bandwidth <= bandwidth + size)
        high[left[last]] = here[last] + 1
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (at_bandwidth - before[1, left]) / (bandwidth - before[0, left])
            slope = np.where(np.isfinite(slope) & (slope <= 0), slope, 0.0)
        before[:, left] = bandwidth, at_bandwidth
        place[left] = np.floor(((at_bandwidth - slope * bandwidth) / (1 - slope) - MIN_BANDWIDTH) / size)
        left = left[(high[left] - low[left] > 1) | np.isnan(errors[left])]
    return errors, np.where(np.isnan(errors), np.nan, MIN_BANDWIDTH + size * low)


def smoothed(spectrum: Floats, bandwidth: Floats, chosen: NDArray[np.int64] | None = None) -> Floats:
    """Return (b,) integrals of the absolute smoothed gap, from the gap's cosine coefficients.

    Reflecting at both ends makes cosines of a Gaussian's waves, each of which smoothing makes smaller by exp(-(pi k s)^2 / 2). Of the waves
    with even k the sums at x and 1 - x are equal, of those with odd k opposite, and |e + o| + |e - o| is twice the larger of |e| and |o|:
    so half of the places are enough. Waves that smoothing makes smaller than 2e-11 are left out.

    Args:
        spectrum: (B, waves).
        bandwidth: (b,)
        chosen: (b,) rows of the spectrum; by default all.
    """
    rows, at_places = np.arange(len(spectrum)) if chosen is None else chosen, _cosines(WAVES, WAVES // 2)
    needed = np.minimum(spectrum.shape[1], 2 + (LAST_WAVE / bandwidth).astype(np.int64))
    errors, order = np.empty(len(bandwidth)), np.argsort(needed)
    for start in range(0, len(order), TOGETHER):  # those of wide bandwidths need few
        here = order[start : start + TOGETHER]
        k = np.arange(needed[here[-1]])
        damped = spectrum[rows[here], : len(k)] * np.exp(np.outer(bandwidth[here] ** 2, (np.pi * k) ** 2 / -2))
        even, odd = (np.abs(damped[:, part::2] @ at_places[part : len(k) : 2]) for part in (0, 1))
        errors[here] = np.maximum(even, odd, out=even).mean(axis=1)
    return errors


@lru_cache(maxsize=2)
def _cosines(n_intervals: int, n_first: int) -> Floats:
    """Return (WAVES, n_first) cos(pi k x), doubled for k > 0, x the first interval middles.

    Doubled, one stands for two waves, k and -k.
    """
    k, places = np.arange(WAVES), (np.arange(n_first) + 0.5) / n_intervals
    return np.asarray(np.cos(np.pi * np.outer(k, places)) * np.where(k > 0, 2.0, 1.0)[:, None])


def _test_rows(confidence: Floats, correct: Floats, is_calibration: Floats, rows: str) -> tuple[NDArray[np.int64], Floats]:
    """Return (indices of the scored rows, their (n, OF_INTERVAL) smoothing kernel)."""
    chosen = np.flatnonzero(chosen_rows(is_calibration, rows))
    f, y = confidence[chosen], correct[chosen]
    return chosen, _kernel(f.tobytes(), (y - f).tobytes())


@lru_cache(maxsize=1)
def _kernel(confidence: bytes, gaps: bytes) -> Floats:
    """Return (n, OF_INTERVAL) kernel weights, rows summing to 1, from bytes of float64 (n,).

    The bandwidth is that of the sample, not below twice the distance of places. An interval and its test share the kernel.
    """
    f, gap = np.frombuffer(confidence), np.frombuffer(gaps)
    ones, shares = np.ones(len(f)), gap[None] / len(f)
    waves = cache(partial(_waves, ones, f))
    bandwidth = max(2 / OF_INTERVAL, float(_error_and_bandwidth(lambda first, last: shares @ waves(first, last))[1][0]))
    k = np.arange(math.ceil(1 + LAST_WAVE / bandwidth))
    damped = _cosines(OF_INTERVAL, OF_INTERVAL)[: len(k)] * np.exp(-((np.pi * k * bandwidth) ** 2) / 2)[:, None]
    columns = waves(0, FIRST_WAVES)[:, : len(k)] if len(k) <= FIRST_WAVES else waves(0, len(k))
    kernel: Floats = columns @ damped / OF_INTERVAL
    kernel.flags.writeable = False
    return kernel


def interval(
    confidence: Floats, correct: Floats, is_calibration: Floats, group: NDArray[np.int64], level: float, *, rows: str = "test"
) -> tuple[float, float]:
    """Return the error's (low, high) interval by groups, with the bandwidth held fixed."""
    chosen, kernel = _test_rows(confidence, correct, is_calibration, rows)
    gap = (correct - confidence)[chosen, None] / len(chosen)
    distance = mean_gap_interval(confidence[chosen], correct[chosen], group[chosen], level)
    return calibration_error_interval(kernel * gap, group[chosen], level, distance)


def null_test(
    confidence: Floats, correct: Floats, is_calibration: Floats, group: NDArray[np.int64], *, rows: str = "test"
) -> tuple[float, str]:
    """Return (p-value of perfect calibration at this bandwidth, hypothesis in words)."""
    chosen, kernel = _test_rows(confidence, correct, is_calibration, rows)
    as_if = Calibrated.fit(confidence[chosen], correct[chosen], group[chosen])
    return as_if.null_test(correct[chosen], kernel)


def bounds() -> tuple[float, float]:
    """Return the lowest and highest possible value, 0 and 1."""
    return 0.0, 1.0
