import numpy as np
import pytest

from qualm.registry.scenes.removal import remove_objects, silhouette
from qualm.registry.scenes.render import render
from qualm.runners.contracts.pairs import PairError
from qualm.runners.plugins.masks.scene_graph import scene_graph
from tests.support.data.targets import context, noise, scene_and_picture, wanted


def test_it_is_the_union_of_the_silhouettes():
    scene, picture = scene_and_picture("medium", 1)
    (mask,) = scene_graph(context())([wanted(picture, objects=[0, 2], scene=scene)])
    assert (mask == (silhouette(scene, [0]) | silhouette(scene, [2]))).all()


def test_with_its_shadow_nothing_else_changes_when_the_object_goes():
    for index in range(6):
        scene, picture = scene_and_picture(index=index)
        (mask,) = scene_graph(context(), shadow=True)([wanted(picture, objects=[0], scene=scene)])
        change = np.abs(np.asarray(picture).astype(int) - render(remove_objects(scene, [0]))).max(-1)
        assert change[~mask].max() <= 8
        assert change[~silhouette(scene, [0])].max() > 8


def test_an_object_out_of_frame_and_what_is_no_scene():
    scene, picture = scene_and_picture()
    away = {**scene["objects"][0], "pixel_coords": [900.0, 10.0, 9.0], "3d_coords": [60.0, 0.0, 0.7]}
    assert scene_graph(context())([wanted(picture, objects=[0], scene={**scene, "objects": [away]})]) == ["out of frame"]
    with pytest.raises(PairError, match="has no scene graph"):
        scene_graph(context())([wanted(picture)])
    with pytest.raises(PairError, match="is 30 x 20, its scene graph is drawn at 64 x 64"):
        scene_graph(context())([wanted(noise(30, 20), objects=[0], scene=scene)])
