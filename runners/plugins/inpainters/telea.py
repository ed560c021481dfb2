"""Telea's inpainting ("An Image Inpainting Technique Based on the Fast Marching Method", 2004).

The mask is filled from its rim inwards, each pixel with a weighted mean of known pixels near it. It suits small objects on a plain
ground; larger ones leave a smear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Gt

from qualm.runners.contracts.inpainters import Inpainter, inpaint_by_opencv

if TYPE_CHECKING:
    from qualm.runners.contracts.pairs import PairContext

CITES = ["telea2004image"]


def telea(context: PairContext, *, radius: Annotated[float, Gt(0)] = 3.0) -> Inpainter:
    """Return an inpainter (jobs -> images) by OpenCV's INPAINT_TELEA.

    Args:
        radius: neighbourhood of each pixel, in pixels.
    """
    return lambda jobs: [inpaint_by_opencv(job, radius, "telea") for job in jobs]
