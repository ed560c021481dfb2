import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qualm.registry.scenes.world import DIRECTIONS, LEVELS, RELATIONS, SIZES, VALUES, _apart, make_scene, relationships, visible_shares

WAYS = [tuple(sign * row) for row in np.eye(3) for sign in (1, -1)]
SCENES = st.builds(
    make_scene, st.integers(0, 2**31), st.sampled_from(sorted(LEVELS)), st.sampled_from(["train", "test"]), st.integers(0, 10**6)
)


@settings(max_examples=60)
@given(SCENES)
def test_scene_keeps_its_level_s_rules(scene):
    rules = LEVELS[scene["level"]]
    things = scene["objects"]
    assert rules.objects[0] <= len(things) <= rules.objects[1]
    assert min(visible_shares(things, rules)) >= rules.visible
    for i, a in enumerate(things):
        assert all(a[attribute] in values for attribute, values in VALUES.items())
        assert 0 <= a["pixel_coords"][0] <= rules.pixels and 0 <= a["pixel_coords"][1] <= rules.pixels
        around = [rules.camera.project(tuple(np.array(a["3d_coords"]) + SIZES[a["size"]] * np.array(way)), rules.pixels) for way in WAYS]
        assert all(0 <= end <= rules.pixels for *xy, _ in around for end in xy), "the whole object is in the picture"
        for b in things[:i]:
            flat = math.dist(a["3d_coords"][:2], b["3d_coords"][:2])
            assert flat >= SIZES[a["size"]] + SIZES[b["size"]] + rules.gap - 1e-9


@settings(max_examples=60)
@given(SCENES)
def test_relationships_are_clevr_s(scene):
    xyz = np.array([o["3d_coords"] for o in scene["objects"]])
    for name in RELATIONS:
        along = (xyz[None] - xyz[:, None]) @ np.array(DIRECTIONS[name])
        expected = [sorted(np.flatnonzero(row > 0.2).tolist()) for row in along]
        assert scene["relationships"][name] == expected


def test_scene_survives_json():
    scene = make_scene(7, "hard", "test", 3)
    again = json.loads(json.dumps(scene))
    assert again == scene
    assert relationships([o["3d_coords"] for o in again["objects"]]) == again["relationships"]
    assert set(scene) >= {"split", "image_index", "image_filename", "objects", "directions", "relationships"}
    assert set(scene["objects"][0]) == {"shape", "size", "color", "material", "3d_coords", "rotation", "pixel_coords"}
    assert set(scene["directions"]) == {"left", "right", "front", "behind", "above", "below"}


def test_vocabulary_is_clevr_s():
    assert VALUES["color"] == ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow")
    assert set(VALUES["shape"]) == {"cube", "sphere", "cylinder"}
    assert SIZES == {"large": 0.7, "small": 0.35}


def test_directions_are_the_axes_and_their_opposites():
    assert np.array_equal([DIRECTIONS[name] for name in ("right", "behind", "above")], np.eye(3))
    for name, opposite in (("left", "right"), ("front", "behind"), ("below", "above")):
        assert np.array_equal(DIRECTIONS[name], np.negative(DIRECTIONS[opposite]))


def test_an_object_is_apart_from_another_by_gap_and_margin():
    rules = LEVELS["easy"]
    other = {"size": "small", "3d_coords": [0.0, 0.0, 0.35]}
    reach = 0.35 + 0.35 + rules.gap
    side = math.sqrt(reach**2 - rules.margin**2)
    assert _apart(rules.margin, side + 1e-9, "small", other, rules) and _apart(-side - 1e-9, -rules.margin, "small", other, rules)
    assert not _apart(rules.margin - 1e-9, 2.0, "small", other, rules) and not _apart(2.0, rules.margin - 1e-9, "small", other, rules)
    assert not _apart(rules.margin, side - 1e-6, "small", other, rules) and not _apart(rules.margin, side + 1e-9, "large", other, rules)


def test_what_a_nearer_object_hides_of_a_farther_one():
    """By the 24 points of its disc at which sight is tested: all, those beside a disc that covers its left half, or none."""
    rules = LEVELS["medium"]

    def thing(x, y, depth, size="large"):
        return {"size": size, "shape": "sphere", "pixel_coords": [x, y, depth]}

    radius = 0.7 * rules.camera.focal * rules.pixels / 10.0
    assert visible_shares([thing(64, 64, 10.0), thing(64, 64, 9.0)], rules) == [0.0, 1.0]
    assert visible_shares([thing(64, 64, 10.0), thing(64, 64, 10.0)], rules) == [1.0, 1.0], "neither is nearer"
    assert visible_shares([thing(64, 64, 10.0), thing(64 + 2.2 * radius, 64, 9.5)], rules) == [1.0, 1.0]
    (hidden, nearer) = visible_shares([thing(64, 64, 10.0), thing(64 - radius, 64, 9.999)], rules)
    assert 0.4 < hidden < 0.8 and nearer == 1.0 and round(hidden * 24) == hidden * 24


def test_projection_agrees_with_the_camera_s_axes():
    camera = LEVELS["medium"].camera
    position, axes = camera.axes()
    point = (0.7, -1.3, 0.35)
    right, down, forward = axes @ (np.array(point) - position)
    x, y, depth = camera.project(point, 100)
    assert depth == pytest.approx(forward)
    assert x == pytest.approx(50 + camera.focal * 100 * right / forward)
    assert y == pytest.approx(50 + camera.focal * 100 * down / forward)


def test_seed_split_and_index_each_matter():
    scenes = [
        make_scene(7, "easy", "test", 0),
        make_scene(8, "easy", "test", 0),
        make_scene(7, "easy", "train", 0),
        make_scene(7, "easy", "test", 1),
    ]
    assert len({json.dumps(s["objects"]) for s in scenes}) == 4
    assert make_scene(7, "easy", "test", 0) == scenes[0]
