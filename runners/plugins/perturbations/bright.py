"""Overexposure: light parts become white."""

from typing import Annotated

from annotated_types import Ge, Le
from numpy.random import Generator
from PIL.Image import Image

from qualm.runners.plugins.perturbations._levels import brightened

CITES = ["wang_vlmuqbench"]
MODALITY = "image"


def bright(batch: list[Image], rngs: list[Generator], *, factor: Annotated[float, Ge(1), Le(255)] = 4.0) -> list[Image]:
    """Return the images with every level times a factor above 1, at most 255.

    The same as Pillow's `ImageEnhance.Brightness(image).enhance(factor)`, which rounds down.

    Args:
        factor: 1 changes nothing; at 255 all that is not black is at full level.
    """
    return brightened(batch, factor)
