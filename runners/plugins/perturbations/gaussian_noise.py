"""Gaussian sensor noise, independent in every pixel."""

from typing import Annotated, Literal

from annotated_types import Ge
from numpy.random import Generator
from PIL.Image import Image

from qualm.runners.plugins.perturbations._levels import noise_table, raw_numbers

CITES = ["wang_vlmuqbench"]
EXTRA = "pictures"
MODALITY = "image"


def gaussian_noise(
    batch: list[Image],
    rngs: list[Generator],
    *,
    sigma: Annotated[float, Ge(0)] = 50.0,
    channels: Literal["each", "shared"] = "each",
) -> list[Image]:
    """Return the images with N(0, sigma) added to every channel, clipped to 0..255.

    Normal numbers are 65,536 equally likely quantiles (none beyond 4.3 sigma): each whole level has its probability to within 2^-16, in a
    fifth of the time.

    Args:
        sigma: standard deviation on the scale 0..255; 0 changes nothing.
        channels: `each`: independent noise in every channel, as in sensors and most code. `shared`: one number for all three, which
            keeps hues. VLM-UQBench does not say which.
    """
    import cv2
    import numpy as np
    import PIL.Image

    noisy: list[Image] = []
    for image, rng in zip(batch, rngs, strict=True):
        pixels = np.asarray(image)
        shape = pixels.shape if channels == "each" else pixels.shape[:2]
        noise = noise_table(sigma).take(raw_numbers(rng, int(np.prod(shape)), "<u2")).reshape(shape)
        added = noise if channels == "each" else cv2.merge((noise,) * 3)
        noisy.append(PIL.Image.fromarray(cv2.add(pixels, added, dtype=cv2.CV_8U)) if sigma > 0 else image.copy())
    return noisy
