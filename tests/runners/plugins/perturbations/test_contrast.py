"""Contrast against its formula by hand."""

import numpy as np
import pytest

from qualm.runners.plugins.perturbations.contrast import contrast
from tests.support.checks.perturbation_checks import one, picture


@pytest.mark.parametrize("factor", [0.0, 0.2, 1.5, 255.0])
def test_is_the_formula(factor):
    image = picture()
    pixels = np.asarray(image, dtype=np.float64)
    luma = (pixels @ [19595, 38470, 7471] + 32768) // 65536
    mean = int(luma.mean() + 0.5)
    want = np.clip(np.trunc(mean + factor * (pixels - mean)), 0, 255)
    assert np.abs(one(contrast, image, factor=factor) - want).max() <= (1 if factor not in (0.0, 1.5) else 0)  # float32 in Pillow
