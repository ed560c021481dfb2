"""Gaussian blur: an image out of focus. Detail goes first, colour and layout last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

if TYPE_CHECKING:
    from numpy.random import Generator
    from PIL.Image import Image

MODALITY = "image"


def blur(batch: list[Image], rngs: list[Generator], *, radius: Annotated[float, Ge(0)] = 2.0) -> list[Image]:
    """Blur every image with a Gaussian.

    Args:
        batch: images.
        rngs: not used; the result is the same every time.
        radius: standard deviation in pixels of the image as it is stored (Pillow's GaussianBlur); 0 changes nothing.
    """
    from PIL import ImageFilter

    return [image.filter(ImageFilter.GaussianBlur(radius)) if radius > 0 else image.copy() for image in batch]
