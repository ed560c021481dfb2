"""Soft or oversharpened edges, as cheap cameras make them."""

from typing import Annotated

from annotated_types import Ge, Le
from numpy.random import Generator
from PIL.Image import Image

MODALITY = "image"


def sharpness(batch: list[Image], rngs: list[Generator], *, factor: Annotated[float, Ge(0), Le(255)] = 0.0) -> list[Image]:
    """Return the images moved towards a smoothed copy, or away (sharper) if `factor` > 1.

    Pillow's `ImageEnhance.Sharpness(image).enhance(factor)`. VLM-UQBench names it and gives no strength; the default is ours.

    Args:
        factor: new = smooth + factor * (old - smooth), smooth by Pillow's 3 x 3 filter. 1 changes nothing, 0 is smooth, above 1 is sharper.
    """
    from PIL import ImageEnhance

    return [ImageEnhance.Sharpness(image).enhance(factor) if factor != 1 else image.copy() for image in batch]
