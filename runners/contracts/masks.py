"""Masks: which pixels of a picture show a thing.

A plugin is one file here holding one function of the file's name. It returns a `Masker`:

    def boxes(context: PairContext) -> Masker: ...

What the recipe `inpainted` relies on, and every plugin keeps:

- A masker takes a batch of (target, thing, picture) and gives one mask each, in order: bool, (height, width) of the picture,
  True where the thing is, at one pixel at least. Where it finds nothing it gives the reason, a few words that the recipe
  counts: "no box", "out of frame".
- A mask depends on its own item alone, whatever else is in the batch.
- Building a masker reads no weights: the first batch does. What costs more than milliseconds is kept by content.
- It does not dilate: `dilated` does, the same for all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import PIL.Image

from qualm.runners.contracts.saliency import Box, Target, Thing


@dataclass(frozen=True)
class MaskRequest:
    target: Target
    thing: Thing
    """What to mask: the target's own thing, or another as a control."""
    picture: PIL.Image.Image
    """RGB."""


Mask = np.ndarray | str
"""A mask, or why there is none."""
Masker = Callable[[Sequence[MaskRequest]], list[Mask]]


def dilated(mask: np.ndarray, kernel: int) -> np.ndarray:
    """A mask grown by a square kernel, as `cv2.dilate` does with `ones((kernel, kernel))` and its default anchor.

    An odd kernel of k pixels grows a mask by (k - 1) / 2 to every side. An even one is off-centre, since its anchor cannot be
    its middle: k / 2 - 1 to the left and up, k / 2 to the right and down. The paper's 20 is even:

    >>> mask = np.zeros((61, 61), bool)
    >>> mask[30, 30] = True
    >>> [(int(rows.min()), int(rows.max()), int(rows.size)) for k in (20, 21) for rows in [np.flatnonzero(dilated(mask, k).any(axis=1))]]
    [(21, 40, 20), (20, 40, 21)]

    Args:
        mask: (height, width) bool.
        kernel: side in pixels; 0 and 1 change nothing.
    """
    if kernel <= 1:
        return mask.copy()
    import cv2

    grown: np.ndarray = cv2.dilate(mask.astype(np.uint8), np.ones((kernel, kernel), np.uint8)).astype(bool)
    return grown


def reach(kernel: int) -> dict[str, int]:
    """By how many pixels `dilated` grows a mask to each side."""
    k = max(kernel, 1)
    return {"left": (k - 1) // 2, "up": (k - 1) // 2, "right": k // 2, "down": k // 2}


def fill(boxes: Sequence[Box], height: int, width: int) -> np.ndarray:
    """The pixels that boxes touch, cut off at the picture's edge: (height, width) bool, one union."""
    mask = np.zeros((height, width), bool)
    for x, y, w, h in boxes:
        left, top, right, bottom = int(np.floor(x)), int(np.floor(y)), int(np.ceil(x + w)), int(np.ceil(y + h))
        if w > 0 and h > 0:
            mask[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = True
    return mask


def box_of(mask: np.ndarray) -> Box:
    """The smallest box around a mask that is not empty."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    left, top = float(columns[0]), float(rows[0])
    return left, top, float(columns[-1]) + 1 - left, float(rows[-1]) + 1 - top
