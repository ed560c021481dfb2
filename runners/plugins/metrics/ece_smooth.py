"""Smooth calibration error, smECE. Blasiok, Nakkiran, 2024 (ICLR; preprint 2023)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.binning import Calibrated, calibration_error_ends, unseen_error

CITES = ["blasiok2024smooth"]
ALSO_KNOWN_AS = ["smooth_ece", "smece", "smooth_calibration_error"]
HIGHER_IS_BETTER = False
INTERVAL = "own"
WAVES = 256
"""Cosines that stand for a smoothed function, with a bandwidth of LEAST the next one counts less than 1e-7; and places, the middles of as
many equal parts of [0, 1], at which gaps are summed up."""
LEAST = 0.0075
"""The smallest bandwidth."""
OF_INTERVAL = 64
STEPS = 14


def ece_smooth(
    confidence: Floats, correct: Floats, is_calibration: Floats, weights: Weights, *, rows: Literal["test", "all"] = "test"
) -> Floats:
    """How far confidence and correctness lie apart, smoothed over neighbouring confidences: a calibration error without bins.

    smECE_s = integral over t in [0, 1] of |mean of (correct - confidence) K_s(t, confidence)|, K_s a Gaussian of bandwidth s reflected at
    0 and 1; the bandwidth is the one at which s = smECE_s, so nothing is left to choose, and a small change of confidences changes it
    little, where bins jump. In [0, 1], lower is better; between half and twice the distance to the nearest calibrated confidences, up to
    its square root. A biased estimate as `ece`, less so: 0 is never reached. No bandwidth is below 0.0075. Undefined without rows.

    Args:
        rows: `test`: rows no conformal setting calibrates on. `all`: every row.
    """
    chosen = 1 - is_calibration if rows == "test" else np.ones_like(correct)
    wave = np.cos(np.pi * np.outer(confidence, np.arange(WAVES))) * ((correct - confidence) * chosen)[:, None]
    sums = weights @ np.column_stack([wave, chosen])
    return _at_own_bandwidth(ratio(sums[:, :-1], sums[:, -1:]))[0]


def _at_own_bandwidth(spectrum: Floats) -> tuple[Floats, Floats]:
    """(B,) errors and bandwidths, by bisection: the error falls where the bandwidth rises."""
    low, high = np.full(len(spectrum), LEAST), np.ones(len(spectrum))
    for _ in range(STEPS):
        middle = (low + high) / 2
        above = smoothed(spectrum, middle) > middle
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return smoothed(spectrum, low), low


def smoothed(spectrum: Floats, bandwidth: Floats) -> Floats:
    """(B,) the integral of the absolute smoothed gaps, from the means of (correct - confidence) cos(pi k confidence), k = 0, 1...

    Reflecting at both ends makes cosines of a Gaussian's waves, each of which smoothing makes smaller by exp(-(pi k s)^2 / 2); their sum
    at the places is the third discrete cosine transform.
    """
    from scipy.fft import dct

    gaps = dct(spectrum * np.exp(-((np.pi * np.arange(WAVES) * bandwidth[:, None]) ** 2) / 2), type=3, axis=1)
    error: Floats = np.abs(gaps).mean(axis=1)
    return error


def _kernel(confidence: Floats, bandwidth: float) -> Floats:
    """(n, OF_INTERVAL): how each answer counts at equally spaced places, so that its row sums to 1."""
    k = np.arange(WAVES)
    places = np.cos(np.pi * np.outer(k, (np.arange(OF_INTERVAL) + 0.5) / OF_INTERVAL)) * np.where(k > 0, 2.0, 1.0)[:, None]
    kernel: Floats = (np.cos(np.pi * np.outer(confidence, k)) * np.exp(-((np.pi * k * bandwidth) ** 2) / 2)) @ places / OF_INTERVAL
    return kernel


def _test_rows(confidence: Floats, correct: Floats, is_calibration: Floats, rows: str) -> tuple[NDArray[np.int64], Floats]:
    """Which rows count, and the kernel of the sample's own bandwidth, not below twice the distance of places."""
    chosen = np.flatnonzero((is_calibration == 0) | (rows == "all"))
    f, y = confidence[chosen], correct[chosen]
    spectrum = (np.cos(np.pi * np.outer(f, np.arange(WAVES))) * (y - f)[:, None]).mean(axis=0, keepdims=True)
    return chosen, _kernel(f, max(2 / OF_INTERVAL, float(_at_own_bandwidth(spectrum)[1][0])))


def interval(
    confidence: Floats, correct: Floats, is_calibration: Floats, group: NDArray[np.int64], level: float, *, rows: str = "test"
) -> tuple[float, float]:
    """The errors at this bandwidth that the value could come from."""
    chosen, kernel = _test_rows(confidence, correct, is_calibration, rows)
    gap = (correct - confidence)[chosen, None] / len(chosen)
    return calibration_error_ends(kernel * gap, group[chosen], level, unseen_error(correct[chosen], group[chosen], level))


def null_test(
    confidence: Floats, correct: Floats, is_calibration: Floats, group: NDArray[np.int64], *, rows: str = "test"
) -> tuple[float, str]:
    """How often the error at this bandwidth would be as large were the answers calibrated."""
    chosen, kernel = _test_rows(confidence, correct, is_calibration, rows)
    as_if = Calibrated.of(confidence[chosen], correct[chosen], group[chosen])
    p = as_if.error_p(correct[chosen], kernel)
    return p, f"confidence is each answer's chance to be right; answers of one group are correlated by {as_if.within:.2f}"


def bounds() -> tuple[float, float]:
    """A share of the distance there can be."""
    return 0.0, 1.0
