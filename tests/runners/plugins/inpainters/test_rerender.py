import numpy as np
import pytest

from qualm.registry.scenes.removal import remove_objects
from qualm.registry.scenes.render import render
from qualm.runners.contracts.pairs import PairError
from qualm.runners.plugins.inpainters.rerender import rerender
from tests.support.data.targets import context, hole, job, noise, scene_and_picture


@pytest.mark.parametrize("level", ["easy", "medium"])
def test_it_is_the_renderer_on_the_reduced_graph(level):
    for index in range(2):
        scene, picture = scene_and_picture(level, index)
        gone = [len(scene["objects"]) - 1]
        (made,) = rerender(context())([job(picture, hole(*picture.size), scene, gone)])
        by_hand = {**scene, "objects": scene["objects"][:-1], "relationships": {}}
        assert (np.asarray(made) == render(by_hand)).all()
        assert (np.asarray(made) == render(remove_objects(scene, gone))).all()


def test_what_is_no_scene_is_refused():
    with pytest.raises(PairError, match="has no scene graph to draw it from"):
        rerender(context())([job(noise(9, 9), hole(9, 9))])
