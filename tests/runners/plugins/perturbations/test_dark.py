"""Dark against Pillow's own enhancement and worked values."""

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from qualm.runners.plugins.perturbations.dark import dark
from tests.support.checks.perturbation_checks import one, picture, ramp


@pytest.mark.parametrize("factor", [0.0, 0.2, 0.999, 1 / 3])
def test_is_pillows_brightness(factor):
    for image in (ramp(), picture()):
        assert np.array_equal(one(dark, image, factor=factor), ImageEnhance.Brightness(image).enhance(factor))


def test_worked_values():
    levels = np.repeat(np.arange(0, 256, 17, dtype=np.uint8)[None, :, None], 3, axis=2)
    made = one(dark, Image.fromarray(levels))  # the paper's .2; what is behind the point is cut off
    assert made[0, :, 0].tolist() == [0, 3, 6, 10, 13, 17, 20, 23, 27, 30, 34, 37, 40, 44, 47, 51]
