import json

import pytest

from qualm.registry.sample import IMAGES, SAMPLES
from qualm.registry.scenes.world import make_scene
from qualm.runners.data.scene_graphs import SceneGraphError, read_scenes
from qualm.runners.runtime.records import iterate_rows, read_table
from tests.support.data.scenes_folder import scenes_folder


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_picture_gets_the_graph_it_was_drawn_from(tmp_path):
    folder = scenes_folder(tmp_path, train=6, test=6)
    found = read_scenes(folder)
    assert set(found) == set(read_table(folder / "samples.parquet", SAMPLES, ["image_id"])["image_id"].to_pylist())
    for row in iterate_rows(folder / "images", IMAGES):
        scene = found[row["image_id"]]
        assert scene["image_filename"] == row["image"]["path"]
        assert scene == make_scene(7, "easy", scene["split"], scene["image_index"])


def test_only_the_wanted_are_kept(tmp_path):
    folder = scenes_folder(tmp_path, test=6)
    one = next(iter(read_scenes(folder)))
    assert set(read_scenes(folder, {one, "not there"})) == {one}


def test_no_graphs_damaged_graphs_and_graphs_of_another_world_are_refused(tmp_path):
    folder = scenes_folder(tmp_path, test=6)
    file = folder / "scenes/CLEVR_test_scenes.json"
    whole = json.loads(file.read_text())
    for scene in whole["scenes"]:
        del scene["level"]  # as in the files of CLEVR itself
    file.write_text(json.dumps(whole))
    with pytest.raises(SceneGraphError, match="is of level None; only easy, medium, hard can be drawn again"):
        read_scenes(folder)
    file.write_text(json.dumps(whole)[:1000])
    with pytest.raises(SceneGraphError, match="expected a CLEVR scenes file"):
        read_scenes(folder)
    file.unlink()
    with pytest.raises(SceneGraphError, match="expected scene graphs as scenes"):
        read_scenes(folder)
