"""Requests of maskers, and operations on masks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import PIL.Image

from qualm.runners.contracts.saliency import Box, Target, Thing


@dataclass(frozen=True)
class MaskRequest:
    """One image for a masker, with the thing to mask."""

    target: Target
    thing: Thing
    """Thing to mask: the target's, or another as a control."""
    picture: PIL.Image.Image
    """RGB."""


Mask = np.ndarray | str
Masker = Callable[[Sequence[MaskRequest]], list[Mask]]


def dilated(mask: np.ndarray, kernel: int) -> np.ndarray:
    """Return a mask grown by a square kernel, as `cv2.dilate` does with its default anchor.

    An odd kernel of k pixels grows a mask by (k - 1) / 2 to every side, an even one by k / 2 - 1 to the left and up, and k / 2 to the right
    and down. The paper's 20 is even:

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


def dilation_reach(kernel: int) -> dict[str, int]:
    """Return `left`, `up`, `right`, `down` -> the pixels by which `dilated` grows a mask."""
    k = max(kernel, 1)
    return {"left": (k - 1) // 2, "up": (k - 1) // 2, "right": k // 2, "down": k // 2}


def fill_boxes(boxes: Sequence[Box], height: int, width: int) -> np.ndarray:
    """Return the union of boxes as a mask, (height, width) bool, cut at the image's edge."""
    mask = np.zeros((height, width), bool)
    for x, y, w, h in boxes:
        left, top, right, bottom = int(np.floor(x)), int(np.floor(y)), int(np.ceil(x + w)), int(np.ceil(y + h))
        if w > 0 and h > 0:
            mask[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = True
    return mask


def box_of(mask: np.ndarray) -> Box:
    """Return the bounding box (left, top, width, height) of a non-empty mask, in pixels."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    left, top = float(columns[0]), float(rows[0])
    return left, top, float(columns[-1]) + 1 - left, float(rows[-1]) + 1 - top
