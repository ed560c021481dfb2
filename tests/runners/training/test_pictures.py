import io
import json

import numpy as np
import pytest
from PIL import Image

from qualm.registry.sample import IMAGES
from qualm.registry.scenes.world import LEVELS, SIZES, VALUES, make_scene
from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.runtime.records import write_table
from qualm.runners.training.pictures import UNSEEN, label_cells, normalise, read_pictures


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


def test_a_cell_is_the_nearest_things_over_it_first_of_all_that_whose_middle_is_in_it():
    rules = LEVELS["easy"]
    side = rules.pixels // 8
    for i in range(40):
        scene = make_scene(3, "easy", "train", i)
        _, owner = label_cells(scene, 8)
        things = [(k, *o["pixel_coords"], o["size"]) for k, o in enumerate(scene["objects"])]
        nearest_first = sorted(things, key=lambda thing: thing[3])
        for cell in range(side * side):
            row, column = divmod(cell, side)
            x, y = 8 * column + 4, 8 * row + 4
            inside = [k for k, px, py, _, _ in nearest_first if 8 * column <= px < 8 * column + 8 and 8 * row <= py < 8 * row + 8]
            over = [
                k
                for k, px, py, depth, size in nearest_first
                if np.hypot(x - px, y - py) <= max(6, SIZES[size] * rules.camera.focal * rules.pixels / depth)
            ]
            assert owner[cell] == next(iter([*inside, *over]), -1)


def test_a_thing_at_the_edge_of_the_picture_has_the_cell_at_the_edge():
    scene = make_scene(3, "easy", "train", 0)
    pixels = LEVELS["easy"].pixels
    scene["objects"] = [{**scene["objects"][0], "pixel_coords": [float(pixels), float(pixels), 1e6]}]
    labels, owner = label_cells(scene, 8)
    assert np.flatnonzero(labels[-1]).tolist() == [len(owner) - 1] and owner[-1] == 0 and (owner[:-1] == -1).all()


def scene_folder(folder, scenes, pictures, size=(8, 6)):
    (folder / "scenes").mkdir(parents=True)
    (folder / "scenes" / "CLEVR_test_scenes.json").write_text(json.dumps({"scenes": scenes}))
    rows = [{"image_id": name, "image": {"bytes": png(size, shade), "path": name}} for name, shade in pictures.items()]
    write_table(folder / "images" / "00000.parquet", rows, IMAGES)
    return folder


def png(size, shade):
    data = io.BytesIO()
    Image.new("RGB", size, (shade, 0, 255)).save(data, "PNG")
    return data.getvalue()


def test_scenes_are_read_with_their_own_pictures(tmp_path):
    scenes = [{**make_scene(3, "easy", "train", i), "image_filename": f"{i}.png"} for i in range(4)]
    first = scene_folder(tmp_path / "a", scenes[:3], {"2.png": 20, "0.png": 0})
    second = scene_folder(tmp_path / "b", scenes[3:], {"3.png": 30})
    found = read_pictures([first, second], 8)
    assert [s["image_filename"] for s in found.scenes] == ["0.png", "2.png", "3.png"], "a limit left 1.png out"
    assert found.pixels.shape == (3, 6, 8, 3) and found.pixels[:, 0, 0].tolist() == [[0, 0, 255], [20, 0, 255], [30, 0, 255]]
    for place, scene in enumerate(found.scenes):
        labels, owner = label_cells(scene, 8)
        assert np.array_equal(found.cells[place], labels) and np.array_equal(found.owner[place], owner)
    sizes = [len(s["objects"]) for s in found.scenes]
    assert found.upto(min(sizes)).tolist() == [i for i, n in enumerate(sizes) if n == min(sizes)] and len(found.upto(99)) == 3


def test_folders_that_cannot_be_read_together(tmp_path):
    scene = {**make_scene(3, "easy", "train", 0), "image_filename": "0.png"}
    with pytest.raises(FinetuneError, match="expected CLEVR scenes files, found none"):
        read_pictures([tmp_path], 8)
    folders = [scene_folder(tmp_path / name, [scene], {"0.png": 0}, size) for name, size in (("a", (8, 6)), ("b", (6, 8)))]
    with pytest.raises(FinetuneError, match=r"expected images of one size, got \[\(6, 8, 3\), \(8, 6, 3\)\]"):
        read_pictures(folders, 8)


def test_pixels_are_centred_and_channels_come_first():
    found = normalise(np.array([[[[0, 255, 51]]]], np.uint8))
    assert found.shape == (1, 3, 1, 1) and found.ravel().tolist() == pytest.approx([-2.0, 2.0, -1.2])
