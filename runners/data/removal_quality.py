"""Quality of object removal, measured on synthetic scenes that can be rendered without the object.

PSNR and SSIM inside the mask compare the paint with the truth; outside it they show left-over shadows. A matched filter that knows the
object's pixels and background, the best possible detector, measures the share `left` of the object that remains:

    left = <painted - truth, original - truth> / <original - truth, original - truth>     over the object's silhouette

1 for the untouched image, 0 for the truth; negative where the paint errs away from the object. Above one half the object counts as
detected. The filter does not see a smudge in other colours; PSNR inside the mask does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DETECTED = 0.5
"""Share of an object above which it counts as detected."""


@dataclass(frozen=True)
class Removal:
    """Errors and SSIM of one inpainted image, and the share of the object that remains."""

    error_inside: float
    """Sum of squared errors over the mask's pixels and channels."""
    error_outside: float
    inside: int
    """Pixels times channels."""
    outside: int
    ssim_inside: float
    """Mean of the SSIM map over the mask; NaN of an empty one."""
    ssim_outside: float
    remaining_share: float
    """NaN if removing the object changes no pixel."""


def measure_removal(painted: np.ndarray, original: np.ndarray, truth: np.ndarray, mask: np.ndarray, silhouette: np.ndarray) -> Removal:
    """Measure squared error and SSIM in and outside the mask, and what remains of the object.

    Args:
        painted: (height, width, 3) uint8, as the others.
        original: with the object.
        truth: without it.
        mask: (height, width) bool, the painted pixels.
        silhouette: (height, width) bool, the object's pixels.
    """
    error = (painted.astype(np.float64) - truth) ** 2
    likeness = ssim(painted, truth).mean(axis=-1)
    thing = original[silhouette].astype(np.float64) - truth[silhouette]
    remains = painted[silhouette].astype(np.float64) - truth[silhouette]
    power = float((thing * thing).sum())
    return Removal(
        float(error[mask].sum()),
        float(error[~mask].sum()),
        int(error[mask].size),
        int(error[~mask].size),
        float(likeness[mask].mean()) if mask.any() else math.nan,
        float(likeness[~mask].mean()) if not mask.all() else math.nan,
        float((remains * thing).sum()) / power if power else math.nan,
    )


def summarize_removals(measured: Sequence[Removal]) -> dict[str, Any]:
    """Return PSNR, SSIM and detection over many images as JSON; undefined values are None.

    PSNR is that of all pixels together, 10 log10(255^2 / mean squared error), so that one perfect image does not make it
    infinite; None for equal images. SSIM and `left` are means over images; `detected` is the share of images.
    """
    left = [m.remaining_share for m in measured if not math.isnan(m.remaining_share)]
    return {
        "against": "rerender",
        "pictures": len(measured),
        "psnr_inside": _psnr(sum(m.error_inside for m in measured), sum(m.inside for m in measured)),
        "psnr_outside": _psnr(sum(m.error_outside for m in measured), sum(m.outside for m in measured)),
        "ssim_inside": _mean([m.ssim_inside for m in measured]),
        "ssim_outside": _mean([m.ssim_outside for m in measured]),
        "left": _mean(left),
        "detected": _mean([float(x > DETECTED) for x in left]),
        "detector": f"matched filter over the thing's silhouette, above {DETECTED}",
    }


def ssim(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the structural similarity map of two 8-bit images, (height, width, channels).

    Zhou Wang, Alan Bovik, Hamid Sheikh, Eero Simoncelli, "Image Quality Assessment: From Error Visibility to Structural
    Similarity", 2004: Gaussian window of 11 pixels and standard deviation 1.5, constants 0.01 and 0.03, per channel, mirrored borders.
    """
    import cv2

    def blur(x: np.ndarray) -> np.ndarray:
        out: np.ndarray = cv2.GaussianBlur(x, (11, 11), 1.5, borderType=cv2.BORDER_REFLECT_101)
        return out.reshape(x.shape)

    a, b = first.astype(np.float64), second.astype(np.float64)
    mean_a, mean_b = blur(a), blur(b)
    var_a, var_b, cov = blur(a * a) - mean_a**2, blur(b * b) - mean_b**2, blur(a * b) - mean_a * mean_b
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    similarity: np.ndarray = ((2 * mean_a * mean_b + c1) * (2 * cov + c2)) / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))
    return similarity


def _psnr(error: float, n: int) -> float | None:
    return round(10 * math.log10(255**2 * n / error), 3) if error > 0 else None


def _mean(values: Sequence[float]) -> float | None:
    defined = [v for v in values if not math.isnan(v)]
    return round(sum(defined) / len(defined), 4) if defined else None
