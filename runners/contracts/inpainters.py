"""Contract of inpainters: remove a thing from an image.

A plugin `NAME.py` has the function

    def telea(context: PairContext, *, radius: float = 3.0) -> Inpainter: ...

- An inpainter takes a batch of `Job`s and returns one image each, in order, of the same size and mode.
- `mask` is dilated, True where to paint, with at least one pixel outside. Pixels outside stay unchanged; only `rerender`, which knows what
  was hidden and where shadows fell, may change any.
- A result depends only on its own job, and on no random number.
- It is called from several threads; one that needs a device uses a lock.
- Weights are read for the first batch. Expensive results are stored by content.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import PIL.Image

from qualm.runners.contracts.saliency import Target, Thing


@dataclass(frozen=True)
class Job:
    target: Target
    thing: Thing
    picture: PIL.Image.Image
    """RGB."""
    mask: np.ndarray
    """(height, width) bool."""


Inpainter = Callable[[Sequence[Job]], list["PIL.Image.Image"]]


def by_opencv(job: Job, radius: float, method: str) -> PIL.Image.Image:
    """Inpaint with `cv2.inpaint`, which treats all channels alike, in any order."""
    import cv2

    flag = {"telea": cv2.INPAINT_TELEA, "navier_stokes": cv2.INPAINT_NS}[method]
    return PIL.Image.fromarray(cv2.inpaint(np.asarray(job.picture), job.mask.astype(np.uint8), radius, flag))
