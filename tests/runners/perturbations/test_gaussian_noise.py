"""Noise: its moments, and the contract every image perturbation keeps."""

import numpy as np
import pytest
from PIL import Image

from runners.perturbations import generator
from runners.perturbations.gaussian_noise import gaussian_noise


def grey(level=128, size=(200, 150)):
    return Image.new("RGB", size, (level, level, level))


def noise(images, sigma, ids=("a", "b", "c"), seed=7, variant="gaussian_noise@sigma=10.0"):
    return gaussian_noise(images, [generator(seed, variant, i) for i in ids[: len(images)]], sigma=sigma)


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


@pytest.mark.parametrize("sigma", [0.0, 10.0])
def test_keeps_size_mode_and_input(sigma):
    image = grey()
    before = image.tobytes()
    (out,) = noise([image], sigma)
    assert (out.size, out.mode) == (image.size, "RGB")
    assert out is not image and image.tobytes() == before
    assert (out.tobytes() == before) == (sigma == 0)


def test_random_numbers_are_the_same_on_every_machine():
    assert generator(7, "v", "a").integers(0, 2**32, 3).tolist() == [2680079554, 3673104614, 3200615295]
