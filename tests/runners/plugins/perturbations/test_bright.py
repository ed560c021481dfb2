"""Bright against Pillow's own enhancement and worked values."""

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from qualm.runners.plugins.perturbations.bright import bright
from tests.support.checks.perturbation_checks import one, picture, ramp


@pytest.mark.parametrize("factor", [1.001, 1.7, 4.0, 255.0])
def test_is_pillows_brightness(factor):
    for image in (ramp(), picture()):
        assert np.array_equal(one(bright, image, factor=factor), ImageEnhance.Brightness(image).enhance(factor))


def test_worked_values():
    levels = np.repeat(np.arange(0, 256, 17, dtype=np.uint8)[None, :, None], 3, axis=2)
    assert one(bright, Image.fromarray(levels))[0, :, 0].tolist() == [0, 68, 136, 204, *[255] * 12]  # the paper's 4
