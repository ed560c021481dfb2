"""Mask of boxes: the union of an object's known boxes, with everything else in them."""

from qualm.registry.scenes.removal import silhouette
from qualm.runners.contracts.masks import Mask, Masker, MaskRequest, box_of, fill_boxes
from qualm.runners.contracts.pairs import PairContext
from qualm.runners.contracts.saliency import Box


def boxes(context: PairContext) -> Masker:
    """Return a masker: the union of a request's known boxes as a mask, or a reason as text.

    No mask: "no box" where none is given, "out of frame" where none of them touches the image.
    """
    return lambda batch: [_mask(item) for item in batch]


def _mask(item: MaskRequest) -> Mask:
    boxes = boxes_of(item)
    if not boxes:
        return "no box"
    mask = fill_boxes(boxes, item.picture.height, item.picture.width)
    return mask if mask.any() else "out of frame"


def boxes_of(item: MaskRequest) -> tuple[Box, ...]:
    """Return the thing's own boxes, else those of its objects in the scene; () without both."""
    scene = item.target.scene
    if item.thing.boxes or scene is None:
        return item.thing.boxes
    masks = (silhouette(scene, [i]) for i in item.thing.objects)
    return tuple(box_of(mask) for mask in masks if mask.any())
