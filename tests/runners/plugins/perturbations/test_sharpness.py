"""Sharpness against a convolution by SciPy."""

import numpy as np
import pytest
from scipy.ndimage import convolve

from qualm.runners.plugins.perturbations.sharpness import sharpness
from tests.support.checks.perturbation_checks import one, picture

KERNEL = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13


@pytest.mark.parametrize("factor", [0.0, 0.5, 2.0, 8.0])
def test_is_a_blend_with_the_smoothed_picture(factor):
    image = picture(size=(60, 40))
    pixels = np.asarray(image, dtype=np.float64)
    smooth = np.floor(np.stack([convolve(pixels[..., c], KERNEL) for c in range(3)], axis=2) + 0.5)
    want = np.clip(np.trunc(smooth + factor * (pixels - smooth)), 0, 255)
    inner = np.s_[1:-1, 1:-1]  # Pillow leaves the edge as it is
    assert np.abs(one(sharpness, image, factor=factor)[inner] - want[inner]).max() <= max(1, factor)
