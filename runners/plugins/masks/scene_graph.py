"""Mask by scene graph: the exact visible pixels of an object."""

from qualm.registry.scenes.removal import silhouette, traces
from qualm.runners.contracts.masks import Mask, Masker, MaskRequest
from qualm.runners.contracts.pairs import PairContext, PairError


def scene_graph(context: PairContext, *, shadow: bool = False) -> Masker:
    """Return a masker: the visible pixels of a scene's objects as a mask, or a reason as text.

    Args:
        shadow: include their shadows: every pixel that would differ by more than 8 of 255 without them. A
            silhouette alone leaves the shadow, which reveals the object.

    No mask: "out of frame" where no pixel shows any of them.

    Raises:
        PairError: a target without a scene graph.
    """
    return lambda batch: [_mask(item, shadow) for item in batch]


def _mask(item: MaskRequest, shadow: bool) -> Mask:
    scene, objects = item.target.scene, item.thing.objects
    if scene is None or not objects:
        raise PairError(
            f"mask scene_graph: '{item.target.key}' has no scene graph; use saliency scene_graph, or masks boxes or grounded_sam"
        )
    mask = silhouette(scene, objects)
    if mask.shape != (item.picture.height, item.picture.width):
        raise PairError(
            f"mask scene_graph: the image of '{item.target.key}' is {item.picture.width} x {item.picture.height}, "
            f"its scene graph is drawn at {mask.shape[1]} x {mask.shape[0]}"
        )
    if not mask.any():
        return "out of frame"
    return traces(scene, objects) if shadow else mask
