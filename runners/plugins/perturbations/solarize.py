"""Solarisation: light parts shown as their negative."""

from typing import Annotated

from annotated_types import Ge, Le
from numpy.random import Generator
from PIL.Image import Image

CITES = ["wang_vlmuqbench"]
MODALITY = "image"


def solarize(batch: list[Image], rngs: list[Generator], *, threshold: Annotated[int, Ge(0), Le(255)] = 127) -> list[Image]:
    """Return the images with every level above `threshold` inverted, in each channel.

    Args:
        threshold: the highest level that stays; 255 changes nothing, 0 inverts all but black. VLM-UQBench reports a strength of 1. If
            that means "on", the usual threshold applies, the default: 127 (Pillow's 128 is the first inverted level). As the threshold
            of its formula it is `threshold: 1`, the negative of the whole image.
    """
    table = [level if level <= threshold else 255 - level for level in range(256)] * 3
    return [image.point(table) for image in batch]
