"""Read scenes and their images from a dataset folder, as arrays for training."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qualm.registry.formats import pictures
from qualm.registry.sample import IMAGES
from qualm.registry.scenes.world import LEVELS, SIZES, VALUES, Scene
from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.runtime.records import iterate_rows

UNSEEN = -100
"""Label of a cell without an object."""
HEADS = (*(len(values) for values in VALUES.values()), 2)
"""Number of classes of each cell label: size, color, material, shape, and whether it has an object's centre."""


@dataclass(frozen=True)
class ScenePictures:
    """Images (n, pixels, pixels, 3) uint8, scene graphs and cell labels of `read_pictures`."""

    pixels: np.ndarray
    scenes: list[Scene]
    cells: np.ndarray
    """(n, heads, cells) int64: labels of each cell."""
    owner: np.ndarray
    """(n, cells) int16: index of the object of each cell; -1 = none."""

    def upto(self, objects: int) -> np.ndarray:
        """Return the indices of scenes with at most `objects` objects."""
        return np.flatnonzero([len(s["objects"]) <= objects for s in self.scenes])


def read_pictures(folders: Sequence[Path], patch: int) -> ScenePictures:
    """Read scenes, images and cell labels of dataset folders; FinetuneError if sizes differ.

    Args:
        folders: datasets that the adapter `synthetic_scenes` made.
        patch: side length of a cell, in pixels.

    Raises:
        FinetuneError: a folder without scenes or with images of different sizes.
    """
    scenes: list[Scene] = []
    pixels: list[np.ndarray] = []
    for folder in folders:
        files = sorted((folder / "scenes").glob("CLEVR_*_scenes.json"))
        if not files:
            raise FinetuneError(
                f"{folder}/scenes: expected CLEVR scenes files, found none; train on a dataset of the card synthetic_scenes"
            )
        pictures = {row["image"]["path"]: row["image"]["bytes"] for row in iterate_rows(folder / "images", IMAGES, batch_size=256)}
        for file in files:
            for scene in json.loads(file.read_text(encoding="utf-8"))["scenes"]:
                if scene["image_filename"] in pictures:  # a limit may have left some out
                    scenes.append(scene)
                    pixels.append(decode(pictures[scene["image_filename"]]))
    if len({p.shape for p in pixels}) != 1:
        raise FinetuneError(
            f"expected images of one size, got {sorted({p.shape for p in pixels})}; train on datasets whose images have the same size"
        )
    return ScenePictures(np.stack(pixels), scenes, *(np.stack(a) for a in zip(*(label_cells(s, patch) for s in scenes), strict=True)))


def label_cells(scene: Scene, patch: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (labels (heads, cells), object index (cells,), -1: none), `patch` pixels a cell."""
    rules = LEVELS[scene["level"]]
    side = rules.pixels // patch
    middles = (np.arange(side) + 0.5) * patch
    x, y = (a.ravel() for a in np.meshgrid(middles, middles))
    labels = np.full((len(HEADS), side * side), UNSEEN, np.int64)
    owner = np.full(side * side, -1, np.int16)
    labels[-1] = 0
    far_to_near = sorted(range(len(scene["objects"])), key=lambda i: -float(scene["objects"][i]["pixel_coords"][2]))
    for i in far_to_near:
        px, py, depth = scene["objects"][i]["pixel_coords"]
        reach = max(SIZES[scene["objects"][i]["size"]] * rules.camera.focal * rules.pixels / depth, 0.75 * patch)
        owner[(x - px) ** 2 + (y - py) ** 2 <= reach**2] = i
    for i in far_to_near:
        px, py, _ = scene["objects"][i]["pixel_coords"]
        cell = min(int(py // patch), side - 1) * side + min(int(px // patch), side - 1)
        owner[cell] = i
        labels[-1, cell] = 1
    for i in far_to_near:
        labels[:-1, owner == i] = _classes(scene["objects"][i])
    return labels, owner


def normalise(pixels: np.ndarray) -> np.ndarray:
    """Normalise as the image processor does: (n, h, w, 3) uint8 -> (n, 3, h, w) float32."""
    return ((pixels.astype(np.float32) / 255.0 - MEAN) / STD).transpose(0, 3, 1, 2).copy()


MEAN, STD = 0.5, 0.25


def _classes(thing: dict[str, Any]) -> np.ndarray:
    return np.array([[list(VALUES[a]).index(thing[a])] for a in VALUES])


def decode(data: bytes) -> np.ndarray:
    """Decode an image file to (h, w, 3) uint8."""
    return np.asarray(pictures.decoded(data))
