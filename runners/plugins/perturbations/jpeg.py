"""JPEG artefacts: blocks, ringing and washed-out colour."""

from typing import Annotated, Literal

from annotated_types import Ge, Le
from numpy.random import Generator
from PIL.Image import Image

from qualm.registry.formats.pictures import decoded

MODALITY = "image"
_LARGEST = 65_500
"""Greatest side of a JPEG in pixels."""


def jpeg(
    batch: list[Image],
    rngs: list[Generator],
    *,
    quality: Annotated[int, Ge(1), Le(100)] = 10,
    chroma: Literal["4:2:0", "4:2:2", "4:4:4"] = "4:2:0",
) -> list[Image | None]:
    """Write every image as JPEG and read it again.

    Not one of VLM-UQBench's eight; the default is ours. No strength leaves an image as it is: even 100 rounds. Levels depend on the JPEG
    library that Pillow was built with.

    Args:
        batch: images of 8 bits a channel; one that is longer than 65,500 pixels along a side does not apply.
        quality: the scale of libjpeg, 100 best.
        chroma: at which resolution colour is kept.
    """
    import io

    images: list[Image | None] = []
    for image in batch:
        if max(image.size) > _LARGEST:
            images.append(None)
            continue
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality, subsampling=chroma)
        images.append(decoded(file.getvalue()))
    return images
