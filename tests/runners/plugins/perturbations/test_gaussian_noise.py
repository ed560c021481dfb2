"""Noise: its moments, and the contract every image perturbation keeps."""

import numpy as np
import pytest
from PIL import Image
from scipy.stats import chi2, norm

from qualm.runners.contracts.perturbations import random_generator
from qualm.runners.plugins.perturbations._levels import normal_quantiles
from qualm.runners.plugins.perturbations.gaussian_noise import gaussian_noise
from tests.support.checks.perturbation_checks import changes_nothing, keeps_the_contract, one


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


def test_is_the_same_for_a_sample_whatever_its_neighbours_and_differs_between_samples():
    alone = noise([grey()], 10.0)[0].tobytes()
    assert noise([grey(), grey(), grey()], 10.0)[0].tobytes() == alone
    assert noise([grey()], 10.0, ids=("b",))[0].tobytes() != alone
    assert noise([grey()], 10.0, seed=8)[0].tobytes() != alone
    assert noise([grey()], 10.0, variant="other")[0].tobytes() != alone


@pytest.mark.parametrize("channels", ["each", "shared"])
@pytest.mark.parametrize("sigma", [10.0, 1e9, float("inf")])
def test_keeps_the_contract(sigma, channels):
    keeps_the_contract(gaussian_noise, by_chance=True, sigma=sigma, channels=channels)


def test_zero_changes_nothing():
    changes_nothing(gaussian_noise, sigma=0.0)
    changes_nothing(gaussian_noise, sigma=0.0, channels="shared")


def test_every_level_comes_as_often_as_a_rounded_normal_number():
    sigma = 5.0
    difference = np.asarray(noise([grey(size=(800, 600))], sigma)[0], dtype=int).ravel() - 128
    seen = np.bincount(difference + 40, minlength=81)[10:71]
    edges = norm.cdf((np.arange(-30, 32) - 0.5) / sigma)
    expected = np.diff(edges) * difference.size
    kept = expected > 20
    statistic = ((seen - expected)[kept] ** 2 / expected[kept]).sum()
    assert statistic < chi2.ppf(0.999, kept.sum() - 1)


def test_quantiles_have_the_spread_of_a_normal_number():
    z = normal_quantiles()
    assert len(z) == 65536 and np.allclose(z, norm.ppf((np.arange(65536) + 0.5) / 65536), atol=1e-9)
    assert z.std() == pytest.approx(1.0, abs=2e-4) and z.mean() == 0.0


def test_shared_noise_is_one_number_for_the_three_channels():
    made = np.asarray(one(gaussian_noise, grey(), sigma=20.0, channels="shared"), dtype=int) - 128
    assert np.array_equal(made[..., 0], made[..., 1]) and np.array_equal(made[..., 0], made[..., 2])
    assert made[..., 0].std() == pytest.approx(20.0, rel=0.02)


@pytest.mark.parametrize("sigma", [0.0, 10.0])
def test_keeps_size_mode_and_input(sigma):
    image = grey()
    before = image.tobytes()
    (out,) = noise([image], sigma)
    assert (out.size, out.mode) == (image.size, "RGB")
    assert out is not image and image.tobytes() == before
    assert (out.tobytes() == before) == (sigma == 0)


def test_random_numbers_are_the_same_on_every_machine():
    assert random_generator(7, "v", "a").integers(0, 2**32, 3).tolist() == [2680079554, 3673104614, 3200615295]
