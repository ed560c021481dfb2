"""Blur against SciPy's Gaussian filter."""

import numpy as np
import pytest
from PIL import Image, ImageFilter
from scipy.ndimage import gaussian_filter

from qualm.runners.plugins.perturbations.blur import blur
from tests.support.checks.perturbation_checks import one, picture


def test_is_close_to_an_exact_gaussian():
    image = picture(size=(80, 60))
    got = np.asarray(one(blur, image, radius=3.0), dtype=float)
    want = gaussian_filter(np.asarray(image, dtype=float), (3.0, 3.0, 0), mode="nearest")
    assert np.abs(got - want)[12:-12, 12:-12].mean() < 2.0  # Pillow sums three box filters


@pytest.mark.parametrize("size", [(160, 120), (157, 123)])
@pytest.mark.parametrize("radius", [4.0, 7.3, 10.0])
def test_fast_is_as_near_to_a_gaussian_as_pillow(radius, size):
    """Sizes that the factor divides, and sizes that leave a part of a block at the edges."""
    image = picture(size=size)
    want = gaussian_filter(np.asarray(image, dtype=float), (radius, radius, 0), mode="nearest")
    far = {
        fast: np.abs(np.asarray(one(blur, image, radius=radius, fast=fast), dtype=float) - want)[12:-12, 12:-12] for fast in (False, True)
    }
    assert far[True].mean() < max(1.0, 1.3 * far[False].mean())


def test_fast_is_the_same_below_a_radius_of_four():
    assert np.array_equal(one(blur, picture(), radius=3.9, fast=True), one(blur, picture(), radius=3.9))
    assert not np.array_equal(one(blur, picture(), radius=4.0, fast=True), one(blur, picture(), radius=4.0))


def test_fast_smears_an_edge_as_wide_as_a_gaussian_does():
    """The variance of what an edge is smeared over, on average over edges at odd and even places."""
    variances = []
    for low in range(0, 60, 3):
        for place in (76, 77, 78):
            row = np.where(np.arange(160) < place, low, 255 - low // 2).astype(np.uint8)
            edge = Image.fromarray(np.tile(row[None, :, None], (24, 1, 3)))
            share = np.diff(np.asarray(one(blur, edge, radius=4.0, fast=True), dtype=float)[12, :, 0]) / np.ptp(row.astype(float))
            x = np.arange(len(share)) - share @ np.arange(len(share))
            variances.append(share @ x**2)
    assert np.mean(variances) == pytest.approx(4.0**2, abs=0.1)


def test_fast_leaves_a_plain_picture_as_it_is():
    plain = Image.new("RGB", (61, 47), (10, 128, 250))
    assert np.array_equal(one(blur, plain, radius=9.0, fast=True), plain)


def test_is_pillows_own():
    assert np.array_equal(one(blur, picture(), radius=2.5), picture().filter(ImageFilter.GaussianBlur(2.5)))
    assert np.array_equal(one(blur, picture()), picture().filter(ImageFilter.GaussianBlur(10)))  # the paper's strength


def test_a_relative_radius_is_a_share_of_the_shorter_side():
    image = picture(size=(200, 50))
    assert np.array_equal(one(blur, image, radius=4.0, relative=True), one(blur, image, radius=2.0))
