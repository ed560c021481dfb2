"""Faded colours, or shades of grey; shape and layout stay."""

from typing import Annotated

from annotated_types import Ge, Le
from numpy.random import Generator
from PIL.Image import Image

MODALITY = "image"


def saturation(batch: list[Image], rngs: list[Generator], *, factor: Annotated[float, Ge(0), Le(255)] = 0.0) -> list[Image]:
    """Return the images with pixels moved towards their luma, or away if `factor` > 1.

    Pillow's `ImageEnhance.Color(image).enhance(factor)`. VLM-UQBench names it and gives no strength; the default is ours.

    Args:
        factor: new = luma + factor * (old - luma). 1 changes nothing, 0 leaves shades of grey, more than 1 is garish.
    """
    from PIL import ImageEnhance

    return [ImageEnhance.Color(image).enhance(factor) if factor != 1 else image.copy() for image in batch]
