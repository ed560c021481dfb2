"""Navier-Stokes inpainting (Bertalmio, Bertozzi, Sapiro, CVPR 2001).

"Navier-Stokes, Fluid Dynamics, and Image and Video Inpainting". Lines of equal brightness continue into the mask as a fluid flows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Gt

from qualm.runners.contracts.inpainters import Inpainter, inpaint_by_opencv

if TYPE_CHECKING:
    from qualm.runners.contracts.pairs import PairContext

CITES = ["bertalmio2001navier"]


def navier_stokes(context: PairContext, *, radius: Annotated[float, Gt(0)] = 3.0) -> Inpainter:
    """Return an inpainter (jobs -> images) by OpenCV's INPAINT_NS.

    Args:
        radius: neighbourhood of each pixel, in pixels.
    """
    return lambda jobs: [inpaint_by_opencv(job, radius, "navier_stokes") for job in jobs]
