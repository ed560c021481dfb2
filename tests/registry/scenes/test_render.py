import io

import numpy as np
import pytest
from PIL import Image

from qualm.registry.scenes.render import png, puddle_in_sight, render, trails_in_sight
from qualm.registry.scenes.world import COLORS, LEVELS, make_scene


def only(scene, **changes):
    thing = {**scene["objects"][0], **changes}
    return {**scene, "objects": [thing]}


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_png_holds_the_rendered_pixels(level):
    scene = make_scene(3, level, "test", 0)
    picture = Image.open(io.BytesIO(png(scene)))
    assert picture.size == (LEVELS[level].pixels,) * 2
    assert picture.mode == "RGB"
    assert (np.asarray(picture) == render(scene)).all()


@pytest.mark.parametrize("color", COLORS)
@pytest.mark.parametrize("shape", ["cube", "sphere", "cylinder"])
def test_the_middle_of_an_object_has_its_color(color, shape):
    scene = only(make_scene(1, "medium", "test", 4), color=color, shape=shape, material="rubber", size="large")
    x, y, _ = scene["objects"][0]["pixel_coords"]
    seen = render(scene)[int(y), int(x)].astype(float)
    distance = {name: np.abs(np.array(rgb) / max(rgb) - seen / seen.max()).sum() for name, rgb in COLORS.items()}
    assert min(distance, key=distance.get) == color or (color, min(distance, key=distance.get)) in {("red", "brown")}


def test_nearer_objects_hide_farther_ones():
    base = make_scene(1, "medium", "test", 4)
    camera = LEVELS["medium"].camera

    def thing(color, y):
        point = (0.0, y, 0.7)
        return {
            "shape": "sphere",
            "size": "large",
            "color": color,
            "material": "rubber",
            "rotation": 0.0,
            "3d_coords": list(point),
            "pixel_coords": list(camera.project(point, 128)),
        }

    near, far = thing("red", -1.0), thing("blue", 0.6)
    x, y, _ = near["pixel_coords"]
    for order in ([near, far], [far, near]):
        r, _, b = render({**base, "objects": order})[int(y), int(x)].astype(int)
        assert r > b


def test_metal_and_rubber_differ_and_shadows_fall():
    scene = make_scene(1, "medium", "test", 4)
    rubber, metal = (render(only(scene, material=m)).astype(int) for m in ("rubber", "metal"))
    assert np.abs(rubber - metal).max() > 30
    empty = render({**scene, "objects": []}).astype(int)
    assert (rubber.sum(2) < empty.sum(2) - 60).sum() > 20


@pytest.mark.parametrize("place", [(-300, 40), (600, 40), (40, -300), (40, 600)])
@pytest.mark.parametrize("shape", ["cube", "sphere"])
def test_what_lies_outside_of_the_picture_is_not_drawn(place, shape):
    scene = make_scene(1, "medium", "test", 4)
    depth = scene["objects"][0]["pixel_coords"][2]
    far_away = only(scene, shape=shape, pixel_coords=[*place, depth], **{"3d_coords": [400.0, 400.0, 0.7]})
    assert (render(far_away) == render({**scene, "objects": []})).all()


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_an_empty_table_is_nearly_grey(level):
    pixels = render({**make_scene(3, level, "test", 0), "objects": []}).astype(float)
    red, green, blue = (pixels[..., channel].mean() for channel in range(3))
    assert max(red, green, blue) < 1.08 * min(red, green, blue)


def test_trails_that_leave_the_picture_or_lie_behind_something_are_not_in_sight():
    base = make_scene(1, "easy", "test", 4)
    camera = LEVELS["easy"].camera

    def thing(x, y, size):
        point = (x, y, 0.7 if size == "large" else 0.35)
        fixed = {"shape": "sphere", "color": "red", "material": "rubber", "rotation": 0.0}
        return {**fixed, "size": size, "3d_coords": list(point), "pixel_coords": list(camera.project(point, 64))}

    alone = trails_in_sight({**base, "objects": [thing(0.0, 0.0, "small")]}, 0)
    assert alone["left"] == alone["right"] > 0.9 and alone["front"] > 0.9  # a little of each is below the object itself
    assert alone["behind"] < alone["front"]
    at_the_edge = trails_in_sight({**base, "objects": [thing(-2.0, 0.0, "small")]}, 0)
    assert at_the_edge["left"] == 0.0 and at_the_edge["right"] > 0.9
    hidden = trails_in_sight({**base, "objects": [thing(0.0, 0.0, "small"), thing(1.2, -0.5, "large")]}, 0)
    assert hidden["right"] < 0.7 * alone["right"] and hidden["left"] == alone["left"]
    crowded = [thing(0.0, 0.0, "small"), thing(0.3, -1.0, "large")]
    shares = [puddle_in_sight({**base, "objects": things}, 0) for things in (crowded[:1], crowded)]
    assert 0.5 < shares[0] < 0.9 and shares[1] < 0.7 * shares[0]
    assert puddle_in_sight({**base, "objects": [thing(40.0, 0.0, "small")]}, 0) == 0.0, "out of the image"
