"""Pixelate against means by hand, in both readings."""

import itertools

import numpy as np
import pytest

from qualm.runners.plugins.perturbations.pixelate import pixelate
from tests.support.checks.perturbation_checks import one, picture


def by_hand(pixels, rows, columns):
    """The rounded mean of every block between the given cuts."""
    made = np.empty_like(pixels)
    for top, bottom in itertools.pairwise(rows):
        for left, right in itertools.pairwise(columns):
            block = pixels[top:bottom, left:right].reshape(-1, 3).astype(float)
            made[top:bottom, left:right] = np.floor(block.mean(axis=0) + 0.5)
    return made


@pytest.mark.parametrize("k", [2, 5, 7, 30, 39, 1000])
def test_blocks_of_k_pixels_from_the_upper_left(k):
    pixels = np.asarray(picture(size=(40, 30)))
    want = by_hand(pixels, [*range(0, 30, k), 30], [*range(0, 40, k), 40])
    assert np.abs(one(pixelate, picture(size=(40, 30)), k=float(k)).astype(int) - want).max() <= 1


def test_a_grid_of_k_by_k():
    pixels = np.asarray(picture(size=(40, 30)))
    want = by_hand(pixels, range(0, 31, 6), range(0, 41, 8))
    assert np.abs(one(pixelate, picture(size=(40, 30)), reading="grid").astype(int) - want).max() <= 1
    slope = picture(size=(3, 3)).resize((401, 301))
    assert len(np.unique(one(pixelate, slope, reading="grid", k=3.0).reshape(-1, 3), axis=0)) == 9


def test_relative_blocks_are_a_share_of_the_shorter_side():
    image = picture(size=(300, 100))
    assert np.array_equal(one(pixelate, image, k=6.0, relative=True), one(pixelate, image, k=6.0))
    image = picture(size=(300, 50))
    assert np.array_equal(one(pixelate, image, k=6.0, relative=True), one(pixelate, image, k=3.0))


def test_blocks_too_big_for_32_bits_are_right_too():
    from PIL import Image

    wide = Image.new("RGB", (4300, 4200), (255, 254, 7))
    assert (one(pixelate, wide, k=4250.0) == (255, 254, 7)).all()


def test_the_finest_grid_changes_nothing():
    assert np.array_equal(one(pixelate, picture(), reading="grid", k=5000.0), picture())


def test_blocks_of_two_are_those_of_imagecorruptions():
    peer = pytest.importorskip("imagecorruptions", reason="a peer to compare with; pip install imagecorruptions")
    made = peer.corrupt(np.asarray(picture(size=(60, 40))), severity=2, corruption_name="pixelate")  # scale .5
    assert np.abs(one(pixelate, picture(size=(60, 40)), k=2.0).astype(int) - made).max() <= 1  # it rounds by rows, then by columns


def test_blocks_are_those_of_albumentations():
    peer = pytest.importorskip("albumentations", reason="a peer to compare with; pip install albumentations")
    how = {"downscale": 3, "upscale": 0}  # OpenCV's INTER_AREA and INTER_NEAREST
    made = peer.Downscale(scale_range=(0.2, 0.2), interpolation_pair=how, p=1)(image=np.asarray(picture(size=(60, 40))))["image"]
    assert np.abs(one(pixelate, picture(size=(60, 40)), k=5.0).astype(int) - made).max() <= 1
