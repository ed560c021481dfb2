"""Saturation against its formula by hand."""

import numpy as np
import pytest

from qualm.runners.plugins.perturbations.saturation import saturation
from tests.support.checks.perturbation_checks import one, picture


@pytest.mark.parametrize("factor", [0.0, 0.3, 2.0, 255.0])
def test_is_the_formula(factor):
    image = picture()
    pixels = np.asarray(image, dtype=np.float64)
    luma = ((pixels @ [19595, 38470, 7471] + 32768) // 65536)[..., None]
    want = np.clip(np.trunc(luma + factor * (pixels - luma)), 0, 255)
    assert np.abs(one(saturation, image, factor=factor) - want).max() <= (0 if factor in (0.0, 2.0, 255.0) else 1)  # float32 in Pillow
