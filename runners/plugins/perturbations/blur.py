"""Gaussian blur: an image out of focus. Detail goes first, colour and layout last."""

from typing import Annotated

from annotated_types import Ge
from numpy.random import Generator
from PIL.Image import Image

from qualm.runners.plugins.perturbations._levels import pixels_of

CITES = ["wang_vlmuqbench"]
MODALITY = "image"


def blur(batch: list[Image], rngs: list[Generator], *, radius: Annotated[float, Ge(0)] = 10.0, relative: bool = False) -> list[Image]:
    """Blur every image with a Gaussian.

    Args:
        radius: standard deviation in pixels of the image as it is stored (Pillow's GaussianBlur); 0 changes nothing.
        relative: the radius is in percent of the shorter side instead: the same look at every resolution. VLM-UQBench's 10 is in
            pixels, which is hardly seen on a photo of 12 megapixels and erases a picture of 64.

    Outside the image its edge goes on. A radius beyond twice the longer side is taken as that.
    """
    from PIL import ImageFilter

    images = []
    for image in batch:
        sigma = min(pixels_of(radius, image, relative), 2.0 * max(image.size))
        images.append(image.filter(ImageFilter.GaussianBlur(sigma)) if sigma > 0 else image.copy())
    return images
