"""Salt and pepper: single pixels replaced by black or white."""

from typing import Annotated, Literal

from annotated_types import Ge, Le
from numpy.random import Generator
from PIL.Image import Image

from qualm.runners.plugins.perturbations._levels import raw_numbers

CITES = ["wang_vlmuqbench"]
EXTRA = "pictures"
MODALITY = "image"


def salt_and_pepper(
    batch: list[Image],
    rngs: list[Generator],
    *,
    p: Annotated[float, Ge(0), Le(1)] = 0.2,
    channels: Literal["shared", "each"] = "shared",
) -> list[Image]:
    """Return the images with each pixel set to black or white with probability `p`.

    Args:
        p: probability that a pixel is lost; 0 changes nothing.
        channels: `shared`: whole pixels, as in VLM-UQBench ("fraction of pixels", "0 (black) or 255 (white)"). `each`: every channel for
            itself, which makes specks of colour.
    """
    import cv2
    import numpy as np
    import PIL.Image

    lost, dark = round(p * 2**32), round(p * 2**31)
    images: list[Image] = []
    for image, rng in zip(batch, rngs, strict=True):
        pixels = np.asarray(image)
        shape = pixels.shape if channels == "each" else pixels.shape[:2]
        numbers = raw_numbers(rng, int(np.prod(shape)), "<u4").reshape(shape)
        intact, white = (-(mask.view(np.int8)).view(np.uint8) for mask in (numbers >= lost, (numbers >= dark) & (numbers < lost)))
        if channels == "shared":
            intact, white = cv2.merge((intact,) * 3), cv2.merge((white,) * 3)
        images.append(PIL.Image.fromarray(pixels & intact | white))
    return images
