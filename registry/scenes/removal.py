"""A scene without some of its objects, and the pixels that change."""

from collections.abc import Collection, Iterable

import numpy as np

from qualm.registry.scenes.render import render, silhouettes
from qualm.registry.scenes.world import Scene, relationships


def remove_objects(scene: Scene, removed: Collection[int]) -> Scene:
    """Return a copy of the scene without objects at these indices; IndexError for a bad one."""
    unknown = [i for i in removed if not 0 <= i < len(scene["objects"])]
    if unknown:
        raise IndexError(f"scene {scene['image_filename']} has {len(scene['objects'])} objects, counted from 0; there is no {unknown[0]}")
    left = [thing for i, thing in enumerate(scene["objects"]) if i not in removed]
    return {**scene, "objects": left, "relationships": relationships([thing["3d_coords"] for thing in left])}


def silhouette(scene: Scene, objects: Iterable[int]) -> np.ndarray:
    """Return a boolean mask (pixels, pixels) of the pixels that show any of these objects."""
    pixels: np.ndarray = silhouettes(scene)[list(objects)].max(axis=0, initial=0.0) > 0
    return pixels


def traces(scene: Scene, objects: Collection[int]) -> np.ndarray:
    """Return a mask (pixels, pixels): these objects are seen or alter the image there."""
    before, after = (render(s).astype(np.int16) for s in (scene, remove_objects(scene, objects)))
    pixels: np.ndarray = (np.abs(before - after).max(axis=-1) > 8) | silhouette(scene, objects)
    return pixels
