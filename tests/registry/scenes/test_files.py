import json

import pytest

from qualm.registry.scenes.files import ScenesFile, ScenesFileError, read_scenes_file
from qualm.registry.scenes.world import make_scene


def test_what_is_written_reads_back(tmp_path):
    scenes = [make_scene(1, "hard", "test", i) for i in range(4)]
    with ScenesFile(tmp_path, "test") as file:
        for scene in scenes:
            file.write(scene)
    assert list(read_scenes_file(tmp_path / "CLEVR_test_scenes.json")) == scenes


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: s.pop("objects"), "scene 1: objects: expected a list, got None"),
        (lambda s: s["objects"][0].update(color="pink"), "scene 1: object 0: color: expected one of gray, red, .*, got 'pink'"),
        (lambda s: s["objects"].__setitem__(0, 3), "object 0: size: expected one of large, small, got 3"),
        (lambda s: s["relationships"].pop("behind"), "relationships: behind: expected"),
        (lambda s: s["relationships"]["left"][0].append(99), "relationships: left"),
        (lambda s: s.update(image_filename=None), "image_filename: expected a str"),
        (lambda s: s.pop("directions"), "directions: expected a dict, got None"),
        (lambda s: s["directions"].update(left=[0, "x", 0]), "directions: left: expected three numbers"),
        (lambda s: s["objects"][0]["3d_coords"].pop(), "object 0: 3d_coords: expected three numbers"),
    ],
)
def test_a_scene_of_another_make_is_named(tmp_path, change, says):
    scenes = [make_scene(1, "easy", "test", i) for i in range(2)]
    change(scenes[1])
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"scenes": scenes}))
    with pytest.raises(ScenesFileError, match=f"a.json: .*{says}"):
        list(read_scenes_file(path))


def test_no_scenes_at_all(tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(ScenesFileError, match="found none"):
        list(read_scenes_file(path))
    for text, says in (
        ("{}", "expected a list of scenes"),
        ('{"scenes": 3}', "scene 0: expected a mapping, got int"),
        ('{"scenes": [', "whole JSON"),
    ):
        path.write_text(text)
        with pytest.raises(ScenesFileError, match=says):
            list(read_scenes_file(path))
