"""Jobs of inpainters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import PIL.Image

from qualm.runners.contracts.saliency import Target, Thing


@dataclass(frozen=True)
class Job:
    """Input of an inpainter: an image, and the mask of the thing to remove."""

    target: Target
    thing: Thing
    picture: PIL.Image.Image
    """RGB."""
    mask: np.ndarray
    """(height, width) bool."""


Inpainter = Callable[[Sequence[Job]], list["PIL.Image.Image"]]


def inpaint_by_opencv(job: Job, radius_pixels: float, method: str) -> PIL.Image.Image:
    """Return a job's image, its mask filled by `cv2.inpaint`: `telea` or `navier_stokes`."""
    import cv2

    flag = {"telea": cv2.INPAINT_TELEA, "navier_stokes": cv2.INPAINT_NS}[method]
    return PIL.Image.fromarray(cv2.inpaint(np.asarray(job.picture), job.mask.astype(np.uint8), radius_pixels, flag))
