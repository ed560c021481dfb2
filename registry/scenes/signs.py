"""Signs of an object's contents, scratches or earlier place, each readable or not.

A sign has a value whether or not the image shows it. The drawing of an unreadable sign does not depend on its value: worlds that differ
in it alone give the same image to the byte. An object's `signs` are by what a question asks for:

| ask | readable | unreadable |
|---|---|---|
| `contents` | a puddle around it, in the color of what is inside | no puddle |
| `scratches` | one to three strokes | a texture finer than the pixels |
| `place` | a smear on the table, from where the object was before | none |
"""

import zlib
from typing import Any

import numpy as np

from qualm.registry.scenes.world import COLORS, DIRECTIONS, RELATIONS, SIZES

READABLE: dict[str, tuple[str, ...]] = {"contents": tuple(COLORS), "scratches": ("1", "2", "3"), "place": RELATIONS}
"""Values of a readable sign. Of an unreadable one any of these fit; of scratches, any large number."""
TRAIL = 1.7
"""Length of a trail from its object's edge, in world units."""

_TRAIL_WIDTH = 0.8
"""Half width of a trail, in its object's radii."""
_PUDDLE = 0.5
"""Extent of a puddle from its object's edge, in world units."""


def sign(value: str, readable: bool) -> dict[str, Any]:
    return {"value": value, "readable": readable}


def draw_on_table(canvas: np.ndarray, spots: np.ndarray, thing: dict[str, Any]) -> None:
    """Draw an object's trail and puddle on `canvas`, in place, if its signs are readable.

    Args:
        canvas: (pixels, pixels, 3), linear light, the table alone.
        spots: (pixels, pixels, 2), where each pixel's ray meets the table.
    """
    signs = {ask: entry["value"] for ask, entry in thing.get("signs", {}).items() if entry["readable"]}
    if "place" in signs:
        canvas[trail(spots, thing, signs["place"])] = _linear(thing["color"])
    if "contents" in signs:
        canvas[puddle(spots, thing)] = _linear(signs["contents"])


def puddle(spots: np.ndarray, thing: dict[str, Any]) -> np.ndarray:
    """Return a mask (pixels, pixels) of the puddle around an object, hidden parts too.

    `spots` is (pixels, pixels, 2), where each pixel's ray meets the table.
    """
    offset = spots - np.array(thing["3d_coords"][:2])
    pixels: np.ndarray = np.hypot(offset[..., 0], offset[..., 1]) < SIZES[thing["size"]] + _PUDDLE
    return pixels


def trail(spots: np.ndarray, thing: dict[str, Any], side: str) -> np.ndarray:
    """Return a mask (pixels, pixels) of a trail to an object from a side, hidden parts too.

    `spots` is (pixels, pixels, 2), where each pixel's ray meets the table.
    """
    direction = np.array(DIRECTIONS[side][:2])
    offset = spots - np.array(thing["3d_coords"][:2])
    along = offset @ direction - SIZES[thing["size"]]
    across = np.abs(offset @ direction[::-1])
    pixels: np.ndarray = (along > -0.3) & (along < TRAIL) & (across < _TRAIL_WIDTH * SIZES[thing["size"]])
    return pixels


def draw_scratches(window: np.ndarray, cover: np.ndarray, thing: dict[str, Any], unit: int) -> None:
    """Draw an object's scratches on its window of the image, in place.

    Args:
        window: (rows, columns, 3), linear light: the part of the image around the object.
        cover: (rows, columns), the fraction of each pixel that it covers.
        unit: image pixels per pixel of a 64-pixel image.
    """
    for ask, entry in thing.get("signs", {}).items():
        if ask == "scratches" and entry["readable"]:
            window[_strokes(cover, int(entry["value"]), unit)] = _contrast(thing)
        elif ask == "scratches":
            _hatch(window, cover, thing, unit)


def _strokes(cover: np.ndarray, n: int, unit: int) -> np.ndarray:
    """Return a mask (rows, columns) of `n` upright strokes, each 2 units wide, on an object."""
    rows, columns = np.nonzero(cover > 0.5)
    down, across = np.indices(cover.shape)
    down, across = down - (rows.min() + rows.max()) / 2, across - (columns.min() + columns.max()) / 2
    place = np.floor(across / unit + (5 * n - 3) / 2)
    pixels: np.ndarray = (cover > 0.5) & (np.abs(down) < 4.5 * unit) & (place >= 0) & (place < 5 * n - 3) & (place % 5 < 2)
    return pixels


def _hatch(window: np.ndarray, cover: np.ndarray, thing: dict[str, Any], unit: int) -> None:
    """Blend noise over an object in its window, in place: scratches that cannot be counted.

    The noise is seeded by the object's position. Arguments as in `draw_scratches`.
    """
    rows, columns = cover.shape
    rng = np.random.default_rng(zlib.crc32(str(thing["3d_coords"]).encode()))
    noise = rng.random((-(-rows // unit), -(-columns // unit))).repeat(unit, 0).repeat(unit, 1)[:rows, :columns]
    share = (noise**3 * (cover > 0.5))[..., None]
    window *= 1.0 - share
    window += share * _contrast(thing)


def _linear(color: str) -> np.ndarray:
    light: np.ndarray = (np.array(COLORS[color]) / 255.0) ** 2.2
    return light


def _contrast(thing: dict[str, Any]) -> float:
    return 0.0 if sum(COLORS[thing["color"]]) > 400 else 1.0
