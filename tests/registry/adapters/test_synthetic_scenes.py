import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.synthetic_scenes import CHUNK, synthetic_scenes
from qualm.registry.sample import Image, Sample
from qualm.registry.scenes.render import png


def make(folder, workers=1, seed=7, **arguments):
    return list(synthetic_scenes(AdapterContext(folder, seed, workers=workers), **arguments))


@pytest.mark.slow
def test_workers_change_nothing(tmp_path):
    size = CHUNK * 3 * 2 + 10
    alone, together = (make(tmp_path / str(w), workers=w, test=size, train=5) for w in (1, 2))
    assert alone == together
    name = "scenes/CLEVR_test_scenes.json"
    assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


@pytest.mark.slow
def test_scenes_file_is_clevr_s_and_draws_the_same_pictures(tmp_path):
    made = make(tmp_path, test=9, level="medium")
    file = json.loads((tmp_path / "scenes" / "CLEVR_test_scenes.json").read_text())
    assert file["info"]["split"] == "test"
    pictures = {x.path: x.data for x in made if isinstance(x, Image)}
    assert [s["image_filename"] for s in file["scenes"]] == list(pictures)
    assert png(file["scenes"][0]) == pictures["CLEVR_test_000000.png"]


def test_kinds_take_turns(tmp_path):
    samples = [x for x in make(tmp_path, test=60, kinds=["color", "counting"]) if isinstance(x, Sample)]
    assert {x.category for x in samples} == {"attribute/color", "counting"}
    assert samples[0].references and not samples[0].choices


@pytest.mark.slow
def test_formats_share_their_scenes(tmp_path):
    pictures = [[x for x in make(tmp_path / f, test=9, format=f) if isinstance(x, Image)] for f in ("open", "multiple_choice")]
    assert pictures[0] == pictures[1]
    options = [x for x in make(tmp_path / "again", test=9, format="multiple_choice") if isinstance(x, Sample)]
    assert all(len(x.choices) == 6 and x.references == () and x.sample_id.count("-mc-") == 1 for x in options)


def test_scenes_without_such_a_question_are_left_out(tmp_path):
    made = make(tmp_path, test=30, kinds=["relation"])
    assert all(int(x.meta["objects"]) > 1 for x in made if isinstance(x, Sample))


@pytest.mark.parametrize(("kinds", "form"), [([], "open"), (["color", "color"], "open"), (["size"], "multiple_choice")])
def test_impossible_kinds_are_an_error(tmp_path, kinds, form):
    with pytest.raises(AdapterError, match="expected different ones of"):
        make(tmp_path, kinds=kinds, format=form)
