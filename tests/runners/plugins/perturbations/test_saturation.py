"""Saturation against its formula by hand, and the contract."""

import numpy as np
import pytest

from qualm.runners.plugins.perturbations.saturation import saturation
from tests.support.checks.perturbation_checks import changes_nothing, keeps_the_contract, one, picture


@pytest.mark.parametrize("factor", [0.0, 0.3, 2.0, 255.0])
def test_is_the_formula(factor):
    image = picture()
    pixels = np.asarray(image, dtype=np.float64)
    luma = ((pixels @ [19595, 38470, 7471] + 32768) // 65536)[..., None]
    want = np.clip(np.trunc(luma + factor * (pixels - luma)), 0, 255)
    assert np.abs(one(saturation, image, factor=factor) - want).max() <= (0 if factor in (0.0, 2.0, 255.0) else 1)  # float32 in Pillow


def test_none_is_shades_of_grey():
    made = one(saturation, picture())
    assert np.array_equal(made[..., 0], made[..., 1]) and np.array_equal(made[..., 0], made[..., 2]) and made.std() > 20


def test_keeps_the_contract():
    keeps_the_contract(saturation, by_chance=False)
    changes_nothing(saturation, factor=1.0)
