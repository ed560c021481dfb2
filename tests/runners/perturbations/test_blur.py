"""Blur against SciPy's Gaussian filter, and the contract every image perturbation keeps."""

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from runners.perturbations import generator
from runners.perturbations.blur import blur


def picture(seed=0, size=(40, 30)):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def test_is_close_to_an_exact_gaussian():
    image = picture(size=(80, 60))
    got = np.asarray(blur([image], [generator(0, "v", "a")], radius=3.0)[0], dtype=float)
    want = gaussian_filter(np.asarray(image, dtype=float), (3.0, 3.0, 0), mode="nearest")
    assert np.abs(got - want)[12:-12, 12:-12].mean() < 2.0  # Pillow sums three box filters


@pytest.mark.parametrize("radius", [0.0, 2.0])
def test_keeps_size_mode_and_input(radius):
    image = picture()
    before = image.tobytes()
    (out,) = blur([image], [generator(0, "v", "a")], radius=radius)
    assert (out.size, out.mode) == (image.size, "RGB")
    assert out is not image and image.tobytes() == before


def test_zero_changes_nothing():
    image = picture()
    assert blur([image], [generator(0, "v", "a")], radius=0.0)[0].tobytes() == image.tobytes()


def test_does_not_depend_on_the_batch():
    images = [picture(i) for i in range(3)]
    rngs = [generator(0, "v", str(i)) for i in range(3)]
    together = [i.tobytes() for i in blur(images, rngs, radius=1.5)]
    assert together == [blur([i], [r], radius=1.5)[0].tobytes() for i, r in zip(images, rngs, strict=True)]
