"""Renderer of CLEVR scene graphs: analytic ray casting of spheres, cubes and cylinders in NumPy, PNG by Pillow.

It draws soft shadows, contact shade, highlights, and a studio reflected in metal, so that a small model can tell rubber from metal. Only
the window around each object is traced: a 64-pixel scene takes about two milliseconds. An image depends on its scene alone.
"""

import io
import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from PIL import Image

from qualm.registry.scenes.signs import TRAIL, draw_on_table, draw_scratches, puddle, trail
from qualm.registry.scenes.world import COLORS, DIRECTIONS, LEVELS, RELATIONS, SIZES, Scene, radius_of

Array = np.ndarray

_LIGHT = np.array([-0.42, -0.45, 0.79], np.float64)
_FILL = np.array([0.75, -0.35, 0.45], np.float64)
_SHADOW = (0.46, 0.44)
"""Displacement of a shadow per unit of height, away from the light."""


@dataclass(frozen=True)
class _View:
    """Camera rays, finer than pixels, and empty table of a level's images."""

    pixels: int
    over: int
    focal: float
    """Focal length in pixels."""
    eye: Array
    rays: Array
    """(pixels * over, pixels * over, 3), unit length."""
    spots: Array
    """(pixels, pixels, 2): where each pixel's ray meets the table."""
    table: Array
    """(pixels, pixels, 3), linear light, no objects."""


def render(scene: Scene) -> Array:
    """Return the image of a scene, (pixels, pixels, 3) uint8."""
    view = _view(scene["level"])
    canvas = view.table * _shade(view, scene["objects"])[..., None]
    for thing in scene["objects"]:
        draw_on_table(canvas, view.spots, thing)
    for thing in sorted(scene["objects"], key=lambda o: -float(o["pixel_coords"][2])):
        _draw(canvas, view, thing)
    return (_to_srgb(canvas) * 255.0 + 0.5).astype(np.uint8)


def png(scene: Scene) -> bytes:
    return encode_png(render(scene), compress_level=4)


def encode_png(pixels: np.ndarray, compress_level: int = 6) -> bytes:
    """Return pixels (height, width, 3) as the bytes of a PNG file."""
    with io.BytesIO() as out:
        Image.fromarray(pixels).save(out, "PNG", compress_level=compress_level)
        return out.getvalue()


@cache
def _view(level: str) -> _View:
    rules = LEVELS[level]
    over = 3 if rules.pixels <= 64 else 2
    eye, axes = rules.camera.axes()

    def rays(n: int) -> Array:
        offsets = ((np.arange(n) + 0.5) / n - 0.5) / rules.camera.focal
        x, y = np.meshgrid(offsets, offsets)
        d = x[..., None] * axes[0] + y[..., None] * axes[1] + axes[2]
        result: Array = d / np.linalg.norm(d, axis=-1, keepdims=True)
        return result

    coarse = rays(rules.pixels)
    down = np.minimum(coarse[..., 2], -0.02)
    spots = (eye[:2] - coarse[..., :2] * (eye[2] / down)[..., None]).astype(np.float64)
    glow = np.exp(-((spots[..., 0] + 0.6) ** 2 + (spots[..., 1] + 0.4) ** 2) / (2 * (rules.field[0] * 1.5) ** 2))
    table = (0.30 + 0.30 * glow)[..., None] * np.array([1.0, 0.985, 0.96])
    far = np.clip((spots[..., 1] - rules.field[1]) / 12.0, 0.0, 1.0)[..., None]
    table = table * (1 - far) + np.array([0.40, 0.41, 0.43]) * far
    fine = rays(rules.pixels * over).astype(np.float64)
    return _View(rules.pixels, over, rules.camera.focal * rules.pixels, eye.astype(np.float64), fine, spots, table.astype(np.float64))


def _shade(view: _View, objects: list[dict[str, Any]]) -> Array:
    """Return the light on each spot of the table, (pixels, pixels), 1 without shadow."""
    light = np.ones(view.spots.shape[:2], np.float64)
    for thing in objects:
        x, y, z = thing["3d_coords"]
        wide, height = SIZES[thing["size"]] * (0.82 if thing["shape"] == "cube" else 0.92), 2 * z
        along = np.array([_SHADOW[0] * height, _SHADOW[1] * height], np.float64)
        offset = view.spots - np.array([x, y], np.float64)
        reach = np.clip(offset @ along / float(along @ along), 0.0, 0.8)
        away = np.hypot(offset[..., 0] - reach * along[0], offset[..., 1] - reach * along[1]) / wide
        blur = 0.25 + 0.35 * reach
        light *= 1.0 - 0.58 * _smoothstep((1.0 + blur - away) / (2 * blur))
        rim = np.hypot(offset[..., 0], offset[..., 1]) / wide
        light *= 1.0 - 0.3 * _smoothstep(1.55 - rim)
    return light


def silhouettes(scene: Scene) -> Array:
    """Return the fraction of each pixel that shows each object, (objects, pixels, pixels)."""
    view = _view(scene["level"])
    things = scene["objects"]
    shares = np.zeros((len(things), view.pixels, view.pixels))
    for i in sorted(range(len(things)), key=lambda i: -float(things[i]["pixel_coords"][2])):
        look = _look(view, things[i])
        if look is None:
            continue
        shares[:, look.rows, look.columns] *= 1.0 - look.cover
        shares[i, look.rows, look.columns] += look.cover
    return shares


_GEOMETRY = ("shape", "size", "rotation", "3d_coords", "pixel_coords")
"""Keys of an object that determine its outline."""


def _table_in_sight(scene: Scene) -> Array:
    """Return per pixel the fraction that no object covers, (pixels, pixels), cached."""
    things = (tuple(tuple(v) if isinstance(v := thing[name], list) else v for name in _GEOMETRY) for thing in scene["objects"])
    return _uncovered(scene["level"], tuple(things))


@lru_cache(maxsize=64)
def _uncovered(level: str, things: tuple[tuple[Any, ...], ...]) -> Array:
    objects = [dict(zip(_GEOMETRY, thing, strict=True)) for thing in things]
    share: Array = 1.0 - silhouettes({"level": level, "objects": objects}).sum(0)
    share.flags.writeable = False
    return share


def trails_in_sight(scene: Scene, i: int) -> dict[str, float]:
    """Return {side: visible fraction of a trail of object i there, 0 if out of image}."""
    view, rules = _view(scene["level"]), LEVELS[scene["level"]]
    thing, free = scene["objects"][i], _table_in_sight(scene)
    reach = SIZES[thing["size"]] + TRAIL
    shares = {}
    for side in RELATIONS:
        x, y = (a + reach * b for a, b in zip(thing["3d_coords"][:2], DIRECTIONS[side][:2], strict=True))
        pixels = trail(view.spots, thing, side)
        within = all(0 <= p < view.pixels for p in rules.camera.project((x, y, 0.0), view.pixels)[:2])
        shares[side] = float(free[pixels].mean()) if within else 0.0
    return shares


def puddle_in_sight(scene: Scene, i: int) -> float:
    """Return the visible fraction of a puddle around object i, 0 if out of image."""
    view = _view(scene["level"])
    free = _table_in_sight(scene)[puddle(view.spots, scene["objects"][i])]
    return float(free.mean()) if free.size else 0.0


@dataclass(frozen=True)
class _Look:
    """One object traced alone: its window of the image, rays, hits and normals."""

    rows: slice
    columns: slice
    rays: Array
    hit: Array
    points: Array
    normals: Array
    centre: Array
    split: tuple[int, int, int, int]
    """Shape of the rays: (rows, rays per row, columns, rays per column)."""

    @property
    def cover(self) -> Array:
        """Return per pixel of the window the fraction that the object covers, (rows, columns)."""
        share: Array = self.hit.reshape(self.split).mean((1, 3), dtype=np.float64)
        return share


def _look(view: _View, thing: dict[str, Any]) -> _Look | None:
    """Return one object traced alone; None if its window is outside the image."""
    px, py, depth = thing["pixel_coords"]
    reach = SIZES[thing["size"]] * (1.5 if thing["shape"] != "sphere" else 1.12) * view.focal / depth + 1.5
    left, right = max(0, math.floor(px - reach)), min(view.pixels, math.ceil(px + reach))
    top, bottom = max(0, math.floor(py - reach)), min(view.pixels, math.ceil(py + reach))
    if left >= right or top >= bottom:
        return None
    k = view.over
    rays = view.rays[top * k : bottom * k, left * k : right * k].reshape(-1, 3)
    centre = np.array(thing["3d_coords"], np.float64)
    hit, points, normals = _TRACE[thing["shape"]](view.eye - centre, rays, thing)
    split = ((bottom - top), k, (right - left), k)
    return _Look(slice(top, bottom), slice(left, right), rays, hit, points, normals, centre, split)


def _draw(canvas: Array, view: _View, thing: dict[str, Any]) -> None:
    """Draw one object over the canvas (pixels, pixels, 3), in place."""
    look = _look(view, thing)
    if look is None:
        return
    colors = np.zeros_like(look.rays)
    colors[look.hit] = _light(look.rays[look.hit], look.points, look.normals, look.centre, thing)
    part = canvas[look.rows, look.columns]
    part *= 1.0 - look.cover[..., None]
    part += colors.reshape(*look.split, 3).mean((1, 3), dtype=np.float64)
    draw_scratches(part, look.cover, thing, max(1, view.pixels // 64))


def _sphere(eye: Array, rays: Array, thing: dict[str, Any]) -> tuple[Array, Array, Array]:
    r = radius_of(thing)
    b = rays @ eye
    square = b * b - float(eye @ eye) + r * r
    hit = square > 0
    points = eye + rays[hit] * (-b[hit] - np.sqrt(square[hit]))[:, None]
    return hit, points, points / r


def _cube(eye: Array, rays: Array, thing: dict[str, Any]) -> tuple[Array, Array, Array]:
    """Return (mask (n,), hit points (m, 3), normals (m, 3)) of rays (n, 3) on a cube.

    Normals bend near the edges, which look rounded.
    """
    r = radius_of(thing)
    turn = math.radians(thing["rotation"])
    c, s = math.cos(turn), math.sin(turn)
    frame = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], np.float64)
    o, d = eye @ frame, rays @ frame
    inverse = 1.0 / np.where(np.abs(d) < 1e-6, 1e-6, d)
    near, far = (-r * np.sign(inverse) - o) * inverse, (r * np.sign(inverse) - o) * inverse
    enter = near.max(1)
    hit = (enter < far.min(1)) & (enter > 0)
    local = o + d[hit] * enter[hit, None]
    bent = np.sign(local) * np.abs(local / r) ** 14
    bent /= np.linalg.norm(bent, axis=1, keepdims=True)
    return hit, local @ frame.T, bent @ frame.T


def _cylinder(eye: Array, rays: Array, thing: dict[str, Any]) -> tuple[Array, Array, Array]:
    r = radius_of(thing)
    a = rays[:, 0] ** 2 + rays[:, 1] ** 2
    b = rays[:, 0] * eye[0] + rays[:, 1] * eye[1]
    square = b * b - a * float(eye[0] ** 2 + eye[1] ** 2 - r * r)
    side = (-b - np.sqrt(np.maximum(square, 0.0))) / a
    on_side = (square > 0) & (np.abs(eye[2] + rays[:, 2] * side) <= r)
    top = (r - eye[2]) / rays[:, 2]
    on_top = (eye[0] + rays[:, 0] * top) ** 2 + (eye[1] + rays[:, 1] * top) ** 2 <= r * r
    hit = on_side | on_top
    points = eye + rays[hit] * np.where(on_top, top, side)[hit, None]
    wall = points[:, :2] / r
    rounding = (np.abs(points[:, 2]) / r) ** 18
    edge = np.hypot(wall[:, 0], wall[:, 1]) ** 18
    normals = np.concatenate([wall * edge[:, None], (np.sign(points[:, 2]) * rounding)[:, None]], 1)
    return hit, points, normals / np.linalg.norm(normals, axis=1, keepdims=True)


_TRACE = {"sphere": _sphere, "cube": _cube, "cylinder": _cylinder}


def _light(rays: Array, points: Array, normals: Array, centre: Array, thing: dict[str, Any]) -> Array:
    """Return the linear colours, (points, 3), of surface points relative to `centre` (3,)."""
    srgb = np.array(COLORS[thing["color"]], np.float64) / 255.0
    base = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    key = np.maximum(normals @ _LIGHT, 0.0)
    fill = np.maximum(normals @ _FILL, 0.0)
    sky = 0.5 + 0.5 * normals[:, 2]
    ground = np.clip((points[:, 2] + centre[2]) / (2 * centre[2]), 0.0, 1.0) * 0.35 + 0.65
    mirror = rays - 2.0 * (rays * normals).sum(1, keepdims=True) * normals
    shine = np.maximum(mirror @ _LIGHT, 0.0)
    if thing["material"] == "rubber":
        body = (0.16 + 0.34 * sky + 1.0 * key + 0.16 * fill) * ground
        matt: Array = body[:, None] * base * 1.05 + (0.10 * shine**8)[:, None]
        return matt
    up = mirror[:, 2]
    studio = np.where(up > 0, 0.30 + 0.55 * up, 0.30 - 0.16 * np.minimum(-4.0 * up, 1.0))
    studio = studio + 0.9 * _smoothstep((mirror @ _FILL - 0.86) / 0.06) + 0.25 * _smoothstep((0.12 - np.abs(up - 0.42)) / 0.08)
    body = (0.10 + 0.20 * sky + 0.55 * key + 0.08 * fill) * ground
    tint = 0.82 * base + 0.10
    edge = (1.0 - np.clip(-(rays * normals).sum(1), 0.0, 1.0)) ** 4
    result: Array = body[:, None] * base + (studio * 0.75)[:, None] * tint + (1.8 * shine**60 + 0.25 * edge * studio)[:, None]
    return result


def _smoothstep(x: Array) -> Array:
    x = np.clip(x, 0.0, 1.0)
    result: Array = x * x * (3.0 - 2.0 * x)
    return result


def _to_srgb(x: Array) -> Array:
    x = np.clip(x, 0.0, 1.0)
    result: Array = np.where(x <= 0.0031308, x * 12.92, 1.055 * x ** (1 / 2.4) - 0.055)
    return result
