"""Mask of boxes: the plain union of the boxes a thing is known to lie in. Whatever else is in them is masked too."""

from qualm.registry.scenes.removal import silhouette
from qualm.runners.contracts.masks import Mask, Masker, MaskRequest, box_of, fill
from qualm.runners.contracts.pairs import PairContext
from qualm.runners.contracts.saliency import Box


def boxes(context: PairContext) -> Masker:
    """The union of the boxes from saliency (such as GQA's); for scene-graph objects, boxes around their visible parts.

    No mask: "no box" where none is given, "out of frame" where none of them touches the picture.
    """
    return lambda batch: [_mask(item) for item in batch]


def _mask(item: MaskRequest) -> Mask:
    boxes = boxes_of(item)
    if not boxes:
        return "no box"
    mask = fill(boxes, item.picture.height, item.picture.width)
    return mask if mask.any() else "out of frame"


def boxes_of(item: MaskRequest) -> tuple[Box, ...]:
    """The boxes of a thing, made from the scene graph where that is all there is; empty if nothing is known."""
    scene = item.target.scene
    if item.thing.boxes or scene is None:
        return item.thing.boxes
    masks = (silhouette(scene, [i]) for i in item.thing.objects)
    return tuple(box_of(mask) for mask in masks if mask.any())
