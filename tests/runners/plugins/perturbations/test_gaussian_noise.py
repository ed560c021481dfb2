"""Noise: its moments."""

import numpy as np
import pytest
from PIL import Image
from scipy.stats import chi2, norm

from qualm.runners.contracts.perturbations import random_generator
from qualm.runners.plugins.perturbations.gaussian_noise import gaussian_noise
from tests.support.checks.perturbation_checks import one


def grey(level=128, size=(200, 150)):
    return Image.new("RGB", size, (level, level, level))


def noise(images, sigma, ids=("a", "b", "c"), seed=7, variant="gaussian_noise@sigma=10.0"):
    return gaussian_noise(images, [random_generator(seed, variant, i) for i in ids[: len(images)]], sigma=sigma)


def test_has_the_asked_spread_and_no_shift():
    difference = np.asarray(noise([grey()], 10.0)[0], dtype=float) - 128
    assert abs(difference.mean()) < 0.15
    assert difference.std() == pytest.approx(10.0, rel=0.02)  # 90,000 draws; rounding adds 1/12 to the variance
    channels = difference.reshape(-1, 3).T
    assert np.abs(np.corrcoef(channels) - np.eye(3)).max() < 0.03


def test_clips_at_black_and_white():
    dark, bright = (np.asarray(i) for i in noise([grey(0), grey(255)], 200.0))
    assert dark.min() == 0 and bright.max() == 255
    assert (dark == 0).mean() == pytest.approx(0.5, abs=0.02)


def test_every_level_comes_as_often_as_a_rounded_normal_number():
    sigma = 5.0
    difference = np.asarray(noise([grey(size=(800, 600))], sigma)[0], dtype=int).ravel() - 128
    seen = np.bincount(difference + 40, minlength=81)[10:71]
    edges = norm.cdf((np.arange(-30, 32) - 0.5) / sigma)
    expected = np.diff(edges) * difference.size
    kept = expected > 20
    statistic = ((seen - expected)[kept] ** 2 / expected[kept]).sum()
    assert statistic < chi2.ppf(0.999, kept.sum() - 1)


def test_shared_noise_is_one_number_for_the_three_channels():
    made = np.asarray(one(gaussian_noise, grey(), sigma=20.0, channels="shared"), dtype=int) - 128
    assert np.array_equal(made[..., 0], made[..., 1]) and np.array_equal(made[..., 0], made[..., 2])
    assert made[..., 0].std() == pytest.approx(20.0, rel=0.02)
