"""Solarize against Pillow's own and the formula."""

import numpy as np
import pytest
from PIL import ImageOps

from qualm.runners.plugins.perturbations.solarize import solarize
from tests.support.checks.perturbation_checks import one, picture, ramp


@pytest.mark.parametrize("threshold", [0, 1, 100, 127, 254])
def test_is_the_formula_and_pillows(threshold):
    for image in (ramp(), picture()):
        pixels = np.asarray(image)
        made = one(solarize, image, threshold=threshold)
        assert np.array_equal(made, np.where(pixels > threshold, 255 - pixels, pixels))
        assert np.array_equal(made, ImageOps.solarize(image, threshold + 1))


def test_the_default_is_pillows():
    assert np.array_equal(one(solarize, ramp()), ImageOps.solarize(ramp()))


def test_is_albumentations_own():
    peer = pytest.importorskip("albumentations", reason="a peer to compare with; pip install albumentations")
    made = peer.Solarize(threshold_range=(0.5, 0.5), p=1)(image=np.asarray(ramp()))["image"]
    assert np.array_equal(one(solarize, ramp()), made)
