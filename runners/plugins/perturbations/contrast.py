"""Flat light: all levels moved towards the image's mean grey."""

from typing import Annotated

from annotated_types import Ge, Le
from numpy.random import Generator
from PIL.Image import Image

MODALITY = "image"


def contrast(batch: list[Image], rngs: list[Generator], *, factor: Annotated[float, Ge(0), Le(255)] = 0.2) -> list[Image]:
    """Return the images with levels moved towards the mean grey, or away if `factor` > 1.

    Pillow's `ImageEnhance.Contrast(image).enhance(factor)`. VLM-UQBench names it and gives no strength; the default is ours.

    Args:
        factor: new = mean + factor * (old - mean), the mean being that of the image's luma, rounded. 1 changes nothing, 0 is plain grey.
    """
    from PIL import ImageEnhance

    return [ImageEnhance.Contrast(image).enhance(factor) if factor != 1 else image.copy() for image in batch]
