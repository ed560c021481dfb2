"""A sign that can be read shows in the picture what it says; one that cannot leaves no trace of it."""

from itertools import combinations

import numpy as np
import pytest

from qualm.registry.scenes.render import render, trails_in_sight
from qualm.registry.scenes.signs import READABLE, TRAIL, draw_on_table, draw_scratches, puddle, sign, trail
from qualm.registry.scenes.world import COLORS, LEVELS, SIZES, make_scene, visible_shares


def with_a_large_thing_in_full_sight(level):
    """The first such scene, and which object it is."""
    for index in range(50):
        scene = make_scene(5, level, "train", index)
        shares = visible_shares(scene["objects"], LEVELS[level])
        for i, thing in enumerate(scene["objects"]):
            if thing["size"] == "large" and shares[i] == 1.0:
                return scene, i
    raise AssertionError(level)


SCENES = {level: with_a_large_thing_in_full_sight(level) for level in LEVELS}
HIDDEN = {**READABLE, "scratches": ("207", "853", "640")}


def pictures(scene, i, ask, values, readable):
    """The pictures of worlds that differ in what one sign says."""
    shown = []
    for value in values:
        things = [dict(thing) for thing in scene["objects"]]
        things[i]["signs"] = {ask: sign(value, readable)}
        shown.append(render({**scene, "objects": things}))
    return shown


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("ask", READABLE)
def test_worlds_that_differ_in_an_unreadable_sign_look_alike_to_the_byte(level, ask):
    scene, i = SCENES[level]
    first, *others = pictures(scene, i, ask, HIDDEN[ask][:3], readable=False)
    assert all((first == other).all() for other in others)
    plain = render(scene)
    assert (first == plain).all() == (ask != "scratches")  # no trail and no puddle are nothing at all; a hatched surface is seen


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("ask", READABLE)
def test_every_two_values_of_a_readable_sign_look_different(level, ask):
    scene, i = SCENES[level]
    own = scene["objects"][i]["color"]
    values = [v for v in READABLE[ask] if (trails_in_sight(scene, i)[v] > 0.3 if ask == "place" else v != own)]
    shown = [*pictures(scene, i, ask, values, readable=True), *pictures(scene, i, ask, HIDDEN[ask][:1], readable=False)]
    for a, b in combinations(shown, 2):
        changed = np.abs(a.astype(int) - b.astype(int)).max(-1) > 30
        assert changed.sum() >= 3 * (LEVELS[level].pixels // 64) ** 2


def test_strokes_can_be_counted():
    """By hand: a red square of 16 by 16 pixels; strokes of white two wide and three apart, in the middle."""
    thing = {"color": "red", "3d_coords": [0.0, 0.0, 0.7]}
    for n, columns in ((1, [7, 8]), (2, [4, 5, 9, 10]), (3, [2, 3, 7, 8, 12, 13])):
        part = np.full((16, 16, 3), 0.1)
        draw_scratches(part, np.ones((16, 16)), {**thing, "signs": {"scratches": sign(str(n), True)}}, 1)
        drawn = (part == 1.0).all(-1)
        assert np.flatnonzero(drawn.any(0)).tolist() in (columns, [c + 1 for c in columns])
        assert set(drawn.sum(0)) == {0, 8}


def test_a_puddle_lies_around_its_object_in_the_color_of_what_is_inside():
    thing = {"color": "red", "size": "small", "3d_coords": [0.5, 0.0, 0.35]}
    x, y = np.meshgrid(np.linspace(-3, 3, 121), np.linspace(-3, 3, 121))
    spots = np.stack([x, y], -1)
    for readable in (True, False):
        table = np.full((121, 121, 3), 0.3)
        draw_on_table(table, spots, {**thing, "signs": {"contents": sign("blue", readable)}})
        drawn = (table != 0.3).any(-1)
        assert (drawn == (np.hypot(x - 0.5, y) < 0.85) * readable).all()
        assert np.allclose(table[drawn], (np.array(COLORS["blue"]) / 255.0) ** 2.2)


def test_nothing_is_drawn_beside_the_object_nor_without_a_sign():
    thing = {"color": "yellow", "3d_coords": [0.0, 0.0, 0.7]}
    cover = np.zeros((12, 12))
    cover[4:8, 4:8] = 1.0
    for entry in ({"scratches": sign("3", True)}, {"scratches": sign("400", False)}):
        part = np.full((12, 12, 3), 0.5)
        draw_scratches(part, cover, {**thing, "signs": entry}, 1)
        assert (part[cover == 0] == 0.5).all() and (part[cover == 1] != 0.5).any()
    part = np.full((12, 12, 3), 0.5)
    draw_scratches(part, cover, thing, 1)
    draw_on_table(part, np.zeros((12, 12, 2)), thing)
    assert (part == 0.5).all()


def test_a_trail_leads_to_the_side_it_came_from():
    thing = {"size": "small", "3d_coords": [0.0, 0.0, 0.35]}
    x, y = np.meshgrid(np.linspace(-3, 3, 61), np.linspace(-3, 3, 61))
    spots = np.stack([x, y], -1)
    for side, (dx, dy) in {"left": (-1, 0), "right": (1, 0), "front": (0, -1), "behind": (0, 1)}.items():
        pixels = trail(spots, thing, side)
        middle = np.array([x[pixels].mean(), y[pixels].mean()]).round(6)
        assert middle @ np.array([dx, dy]) > 0.8 and abs(middle @ np.array([dy, dx])) < 1e-6
        assert np.ptp(x[pixels] if dx == 0 else y[pixels]) < 0.8 * 2 * 0.35


def test_how_far_a_trail_and_a_puddle_reach():
    thing = {"size": "large", "3d_coords": [0.0, 0.0, 0.7]}
    radius = SIZES["large"]
    ends = np.array([[[radius + TRAIL, 0.0], [radius - 0.3, 0.0], [radius, 0.8 * radius]]])
    inward = np.array([[[-1e-9, 0.0], [1e-9, 0.0], [0.0, -1e-9]]])
    assert trail(ends + inward, thing, "right").all() and not trail(ends, thing, "right").any()
    around = np.array([[[radius + 0.5, 0.0]]])
    assert puddle(around - 1e-9, thing).all() and not puddle(around, thing).any()
