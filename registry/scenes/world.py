"""Scene graphs in the format of CLEVR (Johnson et al., CVPR 2017).

Every scene is a function of (seed, level, split, index) alone, so that asking for more scenes changes none of the earlier ones.
Coordinates are rounded when drawn: a scene read back from its JSON is identical.
"""

import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

Scene = dict[str, Any]
"""One entry of `scenes` in a CLEVR scenes file."""

COLORS: dict[str, tuple[int, int, int]] = {
    "gray": (87, 87, 87),
    "red": (173, 35, 35),
    "blue": (42, 75, 215),
    "green": (29, 105, 20),
    "brown": (129, 74, 25),
    "purple": (129, 38, 192),
    "cyan": (41, 208, 208),
    "yellow": (255, 238, 51),
}
"""CLEVR's eight colours, sRGB."""
SHAPES = ("cube", "sphere", "cylinder")
MATERIALS = ("rubber", "metal")
SIZES: dict[str, float] = {"large": 0.7, "small": 0.35}
"""CLEVR's two sizes: radius in world units."""
VALUES: dict[str, tuple[str, ...]] = {"size": tuple(SIZES), "color": tuple(COLORS), "material": MATERIALS, "shape": SHAPES}
"""Every attribute and its values, in the order an English noun phrase names them."""

DIRECTIONS: dict[str, tuple[float, float, float]] = {
    "left": (-1.0, 0.0, 0.0),
    "right": (1.0, 0.0, 0.0),
    "front": (0.0, -1.0, 0.0),
    "behind": (0.0, 1.0, 0.0),
    "above": (0.0, 0.0, 1.0),
    "below": (0.0, 0.0, -1.0),
}
RELATIONS = ("left", "right", "front", "behind")
OPPOSITES = {"left": "right", "right": "left", "front": "behind", "behind": "front"}
RELATION_MARGIN = 0.2
"""Object j is left of object i when dot(left, j - i) exceeds this, as in CLEVR's generator."""


@dataclass(frozen=True)
class Camera:
    """A pinhole camera above the table that looks along +y and down."""

    distance: float
    elevation: float
    """Degrees above the table."""
    focal: float
    """Focal length in image widths."""

    def axes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (position (3,), unit vectors right, down, forward (3, 3))."""
        angle = math.radians(self.elevation)
        position = np.array([0.0, -self.distance * math.cos(angle), self.distance * math.sin(angle)])
        forward = np.array([0.0, math.cos(angle), -math.sin(angle)])
        return position, np.stack([np.array([1.0, 0.0, 0.0]), np.array([0.0, -math.sin(angle), -math.cos(angle)]), forward])

    def project(self, point: tuple[float, float, float], image_pixels: int) -> tuple[float, float, float]:
        """Return (pixel x, pixel y, depth) of a world point in an image `image_pixels` wide."""
        angle = math.radians(self.elevation)
        y, z = point[1] + self.distance * math.cos(angle), point[2] - self.distance * math.sin(angle)
        depth = y * math.cos(angle) - z * math.sin(angle)
        down = -y * math.sin(angle) - z * math.cos(angle)
        scale = self.focal * image_pixels / depth
        return image_pixels / 2 + point[0] * scale, image_pixels / 2 + down * scale, depth


@dataclass(frozen=True)
class Level:
    """Settings of a difficulty level: image size, objects, distances, camera."""

    pixels: int
    """Width and height of the image."""
    objects: tuple[int, int]
    field: tuple[float, float]
    """Greatest distance of an object from the middle, along x and along y."""
    gap: float
    """Least free space between two objects."""
    margin: float
    """Least difference between two objects along x and along y, so that relations are unambiguous."""
    visible: float
    """Least visible share of each object."""
    camera: Camera
    attributes: tuple[str, ...]


LEVELS: dict[str, Level] = {
    "easy": Level(64, (1, 5), (2.1, 2.3), 0.15, 0.4, 0.8, Camera(9.0, 50.0, 1.62), ("color", "shape")),
    "medium": Level(128, (3, 7), (2.6, 3.2), 0.2, 0.3, 0.55, Camera(10.0, 36.0, 1.5), ("size", "color", "material", "shape")),
    "hard": Level(224, (6, 12), (3.2, 4.0), 0.1, 0.25, 0.3, Camera(11.5, 28.0, 1.5), ("size", "color", "material", "shape")),
}


def attributes_of(scene: Scene) -> tuple[str, ...]:
    """Return the attributes that name objects at the scene's level; all without level."""
    return LEVELS[scene["level"]].attributes if "level" in scene else tuple(VALUES)


def stream(*parts: int | str) -> np.random.Generator:
    """Return a random generator seeded by these names and numbers, in order."""
    return np.random.default_rng([zlib.crc32(p.encode()) if isinstance(p, str) else p for p in parts])


def make_scene(seed: int, level: str, split: str, index: int) -> Scene:
    """Return scene `index` of a split, equal for equal arguments; ValueError if none fits."""
    rules = LEVELS[level]
    rng = stream(seed, level, split, index, "scene")
    count = int(rng.integers(rules.objects[0], rules.objects[1] + 1))
    for _ in range(1000):
        objects = _place_objects(rng, rules, count)
        if objects and min(visible_shares(objects, rules)) >= rules.visible:
            break
    else:
        raise ValueError(f"level {level}: no room for {count} objects within {rules.field} of the middle; lower its gap or objects")
    return {
        "split": split,
        "image_index": index,
        "image_filename": f"CLEVR_{split}_{index:06d}.png",
        "level": level,
        "objects": objects,
        "directions": {name: list(vector) for name, vector in DIRECTIONS.items()},
        "relationships": relationships([o["3d_coords"] for o in objects]),
    }


def relationships(coordinates: list[list[float]]) -> dict[str, list[list[int]]]:
    """Return {relation: per object i, those on that side of i}, from (x, y, z) of each."""
    by_relation: dict[str, list[list[int]]] = {}
    for name in RELATIONS:
        d = DIRECTIONS[name]
        by_relation[name] = [
            [j for j, b in enumerate(coordinates) if j != i and sum(d[k] * (b[k] - a[k]) for k in range(3)) > RELATION_MARGIN]
            for i, a in enumerate(coordinates)
        ]
    return by_relation


def radius_of(thing: dict[str, Any]) -> float:
    """Return half an object's height in world units."""
    return SIZES[thing["size"]] / (math.sqrt(2.0) if thing["shape"] == "cube" else 1.0)


def visible_shares(objects: list[dict[str, Any]], rules: Level) -> list[float]:
    """Return per object the fraction, 0 to 1, that nearer ones leave visible (as discs)."""
    discs = [(x, y, _reach(o) * rules.camera.focal * rules.pixels / d, d) for o in objects for x, y, d in [o["pixel_coords"]]]
    shares = []
    for i, (x, y, r, depth) in enumerate(discs):
        nearer = [
            (p, q, s) for j, (p, q, s, other) in enumerate(discs) if j != i and other < depth and (p - x) ** 2 + (q - y) ** 2 < (r + s) ** 2
        ]
        visible = sum(all((x + r * u - p) ** 2 + (y + r * v - q) ** 2 >= s * s for p, q, s in nearer) for u, v in _DISC)
        shares.append(visible / len(_DISC))
    return shares


def _place_objects(rng: np.random.Generator, rules: Level, count: int) -> list[dict[str, Any]] | None:
    """Draw `count` objects at allowed positions; None if they do not fit."""
    objects: list[dict[str, Any]] = []
    while len(objects) < count:
        size, color, material, shape = (str(values[int(rng.integers(len(values)))]) for values in VALUES.values())
        thing: dict[str, Any] = {"shape": shape, "size": size, "color": color, "material": material}
        z = round(radius_of(thing), 4)
        for x, y in (rng.uniform(-1.0, 1.0, (60, 2)) * rules.field).round(4).tolist():
            if all(_apart(x, y, size, other, rules) for other in objects) and _framed(x, y, z, size, rules):
                break
        else:
            return None
        thing["3d_coords"] = [x, y, z]
        thing["rotation"] = round(float(rng.uniform(0.0, 360.0)), 2)
        thing["pixel_coords"] = [round(v, 3) for v in rules.camera.project((x, y, z), rules.pixels)]
        objects.append(thing)
    return objects


def _apart(x: float, y: float, size: str, other: dict[str, Any], rules: Level) -> bool:
    dx, dy = abs(x - other["3d_coords"][0]), abs(y - other["3d_coords"][1])
    if dx < rules.margin or dy < rules.margin:
        return False
    return math.hypot(dx, dy) >= SIZES[size] + SIZES[other["size"]] + rules.gap


def _framed(x: float, y: float, z: float, size: str, rules: Level) -> bool:
    px, py, depth = rules.camera.project((x, y, z), rules.pixels)
    reach = 1.3 * SIZES[size] * rules.camera.focal * rules.pixels / depth
    return reach <= min(px, py) and max(px, py) <= rules.pixels - reach


def _reach(thing: dict[str, Any]) -> float:
    return SIZES[thing["size"]] * (1.1 if thing["shape"] == "cylinder" else 1.0)


_DISC = [(r * math.cos(a + 3 * r), r * math.sin(a + 3 * r)) for r in (0.25, 0.6, 0.9) for a in np.arange(8) * math.pi / 4]
"""Points of the unit disc at which visibility is tested."""
