"""JPEG artefacts: blocks, ringing and washed-out colour."""

from typing import Annotated, Literal

from annotated_types import Ge, Le
from numpy.random import Generator
from PIL.Image import Image

from qualm.registry.formats.pictures import decoded

MODALITY = "image"
_MAX_SIDE = 65_500
"""Greatest side of a JPEG in pixels."""


def jpeg(
    batch: list[Image],
    rngs: list[Generator],
    *,
    quality: Annotated[int, Ge(1), Le(100)] = 10,
    chroma: Literal["4:2:0", "4:2:2", "4:4:4"] = "4:2:0",
) -> list[Image | None]:
    """Return the images compressed as JPEG and decoded; None if a side is too long for JPEG.

    Not one of VLM-UQBench's eight; the default is ours. Every strength changes the image, since even 100 rounds. Levels depend on Pillow's
    JPEG library.

    Args:
        batch: images of 8 bits per channel, with sides of at most 65,500 pixels.
        quality: libjpeg's scale; 100 is best.
        chroma: resolution of colour.
    """
    import io

    images: list[Image | None] = []
    for image in batch:
        if max(image.size) > _MAX_SIDE:
            images.append(None)
            continue
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality, subsampling=chroma)
        images.append(decoded(file.getvalue()))
    return images
