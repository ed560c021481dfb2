"""Underexposure."""

from typing import Annotated

from annotated_types import Ge, Le
from numpy.random import Generator
from PIL.Image import Image

from qualm.runners.plugins.perturbations._levels import brightened

CITES = ["wang_vlmuqbench"]
MODALITY = "image"


def dark(batch: list[Image], rngs: list[Generator], *, factor: Annotated[float, Ge(0), Le(1)] = 0.2) -> list[Image]:
    """Return the images with every level times a factor below 1.

    The same as Pillow's `ImageEnhance.Brightness(image).enhance(factor)`, which rounds down.

    Args:
        factor: 1 changes nothing, 0 is black.
    """
    return brightened(batch, factor)
