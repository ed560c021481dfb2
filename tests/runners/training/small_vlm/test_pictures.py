import numpy as np

from qualm.registry.scenes.world import VALUES, make_scene
from qualm.runners.training.small_vlm.pictures import UNSEEN, label_cells


def test_cells_name_the_object_over_them():
    for i in range(50):
        scene = make_scene(2, "easy", "train", i)
        labels, owner = label_cells(scene, 8)
        assert labels.shape == (5, 64) and owner.shape == (64,)
        assert (labels[:-1, owner < 0] == UNSEEN).all()
        for cell in np.flatnonzero(owner >= 0):
            thing = scene["objects"][owner[cell]]
            assert [list(values)[labels[k, cell]] for k, values in enumerate(VALUES.values())] == [thing[a] for a in VALUES]


def test_every_middle_is_marked():
    for i in range(50):
        scene = make_scene(2, "easy", "train", i)
        labels, owner = label_cells(scene, 8)
        places = {int(o["pixel_coords"][1] // 8) * 8 + int(o["pixel_coords"][0] // 8) for o in scene["objects"]}
        assert set(np.flatnonzero(labels[-1] == 1).tolist()) == places
        assert (owner[sorted(places)] >= 0).all()
