"""Inpainters: they remove a thing from a picture.

A plugin is one file here holding one function of the file's name. It returns an `Inpainter`:

    def telea(context: PairContext, *, radius: float = 3.0) -> Inpainter: ...

What the recipe `inpainted` relies on, and every plugin keeps:

- An inpainter takes a batch of (target, thing, picture, mask) and gives one picture each, in order, of the same size and mode.
- `mask` is dilated, True where to paint, and leaves at least one pixel to start from. Outside it every pixel stays what it
  was, to the bit; `rerender`, which alone knows what was hidden and where shadows fell, may change any.
- A picture depends on its own item alone, whatever else is in the batch, and on no random number.
- It is called from several threads; one that works on one device takes turns by a lock of its own.
- Building it reads no weights: the first batch does. What costs more than milliseconds is kept by content.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import PIL.Image

from qualm.runners.contracts.saliency import Target, Thing


@dataclass(frozen=True)
class Job:
    """One picture to paint."""

    target: Target
    thing: Thing
    picture: PIL.Image.Image
    """RGB."""
    mask: np.ndarray
    """(height, width) bool."""


Inpainter = Callable[[Sequence[Job]], list["PIL.Image.Image"]]


def by_opencv(job: Job, radius: float, method: str) -> PIL.Image.Image:
    """`cv2.inpaint`; OpenCV's order of channels makes no difference to it, since every channel is painted alike."""
    import cv2

    flag = {"telea": cv2.INPAINT_TELEA, "navier_stokes": cv2.INPAINT_NS}[method]
    return PIL.Image.fromarray(cv2.inpaint(np.asarray(job.picture), job.mask.astype(np.uint8), radius, flag))
