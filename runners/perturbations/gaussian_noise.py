"""Gaussian sensor noise: independent in every pixel and channel, as in a picture taken in poor light."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

if TYPE_CHECKING:
    from numpy.random import Generator
    from PIL.Image import Image

MODALITY = "image"


def gaussian_noise(batch: list[Image], rngs: list[Generator], *, sigma: Annotated[float, Ge(0)] = 25.0) -> list[Image]:
    """Add N(0, sigma) to every channel of every pixel, round to the nearest level and clip to 0..255.

    Args:
        batch: images of 8 bits a channel.
        rngs: one generator per image.
        sigma: standard deviation on the scale 0..255; 0 changes nothing.
    """
    import numpy as np
    import PIL.Image

    noisy: list[Image] = []
    for image, rng in zip(batch, rngs, strict=True):
        pixels = np.asarray(image, dtype=np.float64)
        levels = np.clip(np.rint(pixels + sigma * rng.standard_normal(pixels.shape)), 0, 255)
        noisy.append(PIL.Image.fromarray(levels.astype(np.uint8)))
    return noisy
