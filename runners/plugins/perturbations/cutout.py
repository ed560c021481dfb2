"""A grey square at a random place of the image.

Terrance DeVries, Graham W. Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout", 2017.
"""

from typing import Annotated, Literal

from annotated_types import Ge, Le
from numpy.random import Generator
from PIL.Image import Image

CITES = ["wang_vlmuqbench"]
MODALITY = "image"


def cutout(
    batch: list[Image],
    rngs: list[Generator],
    *,
    ratio: Annotated[float, Ge(0), Le(1)] = 0.2,
    of: Literal["side", "area"] = "side",
    fill: Annotated[int, Ge(0), Le(255)] = 128,
) -> list[Image]:
    """Return the images with a grey square over a uniformly random place of each.

    Args:
        ratio: covered share, the same at every resolution; 0 changes nothing.
        of: `side`: the square's side is `ratio` of the shorter side of the image, 4% of a square image at 0.2. `area`: it covers `ratio`
            of the area, as far as it fits. VLM-UQBench specifies neither; `side` is the default since its 0.2 changes few answers.
        fill: grey level.
    """
    images = []
    for image, rng in zip(batch, rngs, strict=True):
        width, height = image.size
        side = round(ratio * min(width, height) if of == "side" else (ratio * width * height) ** 0.5)
        wide, high = min(side, width), min(side, height)
        left, top = int(rng.integers(width - wide + 1)), int(rng.integers(height - high + 1))
        covered = image.copy()
        if side:
            covered.paste((fill,) * 3, (left, top, left + wide, top + high))
        images.append(covered)
    return images
