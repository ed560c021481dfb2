"""Gaussian blur: an image out of focus."""

from typing import Annotated

from annotated_types import Ge
from numpy.random import Generator
from PIL.Image import Image

from qualm.runners.plugins.perturbations._levels import to_pixels

CITES = ["wang_vlmuqbench"]
MODALITY = "image"

MIN_DEVIATION = 2.0
"""Standard deviation, in pixels of the smaller copy, that `fast` leaves to be blurred there: enough to hide its pixels."""


def blur(
    batch: list[Image],
    rngs: list[Generator],
    *,
    radius: Annotated[float, Ge(0)] = 10.0,
    relative: bool = False,
    fast: bool = False,
) -> list[Image]:
    """Return the images blurred with a Gaussian.

    Args:
        radius: standard deviation in pixels of the image as it is stored (Pillow's GaussianBlur); 0 changes nothing.
        relative: the radius is in percent of the shorter side instead: the same look at every resolution. VLM-UQBench's 10 is in
            pixels, which is hardly seen on a photo of 12 megapixels and erases an image of 64.
        fast: blur a copy that is smaller by a whole factor, half the radius, and enlarge it: several times as fast from a radius of 4 on,
            about as near to a Gaussian as Pillow's three boxes, but with other bytes.

    Outside the image its edge goes on. A radius beyond twice the longer side is taken as that.
    """
    images = []
    for image in batch:
        sigma = min(to_pixels(radius, image, relative), 2.0 * max(image.size))
        factor = min(int(sigma / MIN_DEVIATION), *image.size) if fast else 1
        images.append(_blurred(image, sigma, factor))
    return images


def _blurred(image: Image, sigma: float, factor: int) -> Image:
    """Return an image blurred by `sigma` pixels, via a copy `factor` times smaller if >= 2.

    Variances add: the mean over `factor` pixels has (factor^2 - 1) / 12 and the linear enlargement factor^2 / 6; the rest is blurred.
    """
    from PIL.Image import Resampling
    from PIL.ImageFilter import GaussianBlur

    if factor < 2:
        return image.filter(GaussianBlur(sigma))
    rest = sigma**2 - (factor**2 - 1) / 12 - factor**2 / 6
    small = image.reduce(factor).filter(GaussianBlur(rest**0.5 / factor))
    return small.resize(image.size, Resampling.BILINEAR, box=(0, 0, image.width / factor, image.height / factor))
