import numpy as np
import pytest

from qualm.registry.scenes.questions import matching_objects
from qualm.registry.scenes.removal import remove_objects, silhouette, traces
from qualm.registry.scenes.render import render, silhouettes
from qualm.registry.scenes.world import LEVELS, make_scene, relationships


def scenes(level, n=6):
    return [make_scene(5, level, "test", i) for i in range(n)]


def test_without_takes_out_what_is_named_and_keeps_the_rest():
    scene = make_scene(5, "medium", "test", 2)
    left = remove_objects(scene, [1])
    assert left["objects"] == [scene["objects"][0], *scene["objects"][2:]]
    assert left["relationships"] == relationships([o["3d_coords"] for o in left["objects"]])
    assert len(scene["objects"]) == len(left["objects"]) + 1
    assert remove_objects(scene, []) == scene
    with pytest.raises(IndexError, match="there is no 99"):
        remove_objects(scene, [99])


@pytest.mark.slow
@pytest.mark.parametrize("level", sorted(LEVELS))
def test_a_silhouette_is_where_another_color_shows(level):
    """The oracle is the renderer: an object in another colour changes its own visible pixels and no others."""
    for scene in scenes(level, 3):
        gray = [{**thing, "color": "gray"} for thing in scene["objects"]]
        dark = render({**scene, "objects": gray}).astype(int)
        for i, thing in enumerate(gray):
            bright = render({**scene, "objects": [*gray[:i], {**thing, "color": "yellow"}, *gray[i + 1 :]]}).astype(int)
            changed = np.abs(dark - bright).max(-1) > 0
            mask = silhouette(scene, [i])
            assert not (changed & ~mask).any()
            assert (mask & ~changed).sum() <= 0.02 * mask.sum()  # a ninth of a dark pixel may round to the same level
            assert mask.any(), thing


def test_silhouettes_share_out_each_pixel():
    for level in LEVELS:
        for scene in scenes(level, 3):
            seen = silhouettes(scene)
            assert seen.shape == (len(scene["objects"]), *(LEVELS[level].pixels,) * 2)
            assert seen.min() >= 0 and seen.sum(0).max() <= 1 + 1e-12


def test_a_union_covers_every_object_of_a_name():
    found = 0
    for scene in scenes("medium", 30):
        cubes = matching_objects(scene, {"shape": "cube"})
        mask = silhouette(scene, cubes)
        alone = [silhouette(scene, [i]) for i in cubes]
        assert (mask == np.logical_or.reduce([np.zeros_like(mask), *alone])).all()
        found += len(cubes) > 1
    assert found > 3


def test_an_object_outside_the_picture_has_no_silhouette():
    scene = make_scene(5, "easy", "test", 0)
    thing = {**scene["objects"][0], "pixel_coords": [-500.0, -500.0, 9.0], "3d_coords": [-80.0, 0.0, 0.7]}
    assert not silhouette({**scene, "objects": [thing]}, [0]).any()
    assert not silhouette(scene, []).any()


def test_traces_are_all_that_removal_changes():
    for scene in scenes("easy", 8):
        mask = traces(scene, [0])
        change = np.abs(render(scene).astype(int) - render(remove_objects(scene, [0])).astype(int)).max(-1)
        assert change[~mask].max(initial=0) <= 8
        assert (mask | ~silhouette(scene, [0])).all()
        assert mask.sum() > silhouette(scene, [0]).sum()  # the shadow
