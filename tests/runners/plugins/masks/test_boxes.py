import numpy as np

from qualm.registry.scenes.removal import silhouette
from qualm.runners.plugins.masks.boxes import boxes
from tests.support.data.targets import context, noise, scene_and_picture, wanted


def test_the_union_covers_every_box_of_the_name():
    given = [(2, 3, 10, 5), (30.5, 20.5, 4, 4)]
    (mask,) = boxes(context())([wanted(noise(50, 40), boxes=given)])
    assert mask.shape == (40, 50)
    assert mask[3:8, 2:12].all() and mask[20:25, 30:35].all()
    assert mask.sum() == 50 + 25


def test_scenes_get_the_boxes_around_their_objects():
    for index in range(8):
        scene, picture = scene_and_picture(index=index)
        objects = range(len(scene["objects"]))
        (mask,) = boxes(context())([wanted(picture, objects=objects, scene=scene)])
        shown = silhouette(scene, objects)
        assert (mask | ~shown).all() and mask.sum() > shown.sum()
        rows = np.flatnonzero(shown.any(1))
        assert mask.any(1).nonzero()[0].tolist()[0] == rows[0]


def test_no_box_and_boxes_outside_are_distinguished():
    batch = [wanted(noise(8, 8)), wanted(noise(8, 8), boxes=[(9, 9, 4, 4)]), wanted(noise(1, 1), boxes=[(0, 0, 1, 1)])]
    first, second, third = boxes(context())(batch)
    assert (first, second) == ("no box", "out of frame")
    assert third.shape == (1, 1) and third.all()
