from collections import Counter

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters import uncertain_scenes as module
from qualm.registry.adapters.uncertain_scenes import uncertain_scenes
from qualm.registry.formats.pictures import decoded
from qualm.registry.sample import Image, Sample


def make(folder, seed=7, **arguments):
    return list(uncertain_scenes(AdapterContext(folder, seed), **arguments))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("scenes"), per_subset=20)


def test_four_samples_of_a_scene_of_which_one_is_clear(made):
    samples = [x for x in made if isinstance(x, Sample)]
    assert Counter(s.meta["modality"] for s in samples) == dict.fromkeys(("clean", "image", "text", "cross"), 20)
    for four in (samples[i : i + 4] for i in range(0, 80, 4)):
        clean, image, text, cross = four
        assert len({s.group for s in four}) == 1 and len({s.sample_id for s in four}) == 4
        assert image.question == clean.question and image.references == clean.references and image.image_id != clean.image_id
        assert text.image_id == cross.image_id == clean.image_id and len({clean.question, text.question, cross.question}) == 3
        assert clean.answerable and image.answerable and not text.answerable
        assert cross.meta["how"] == clean.meta["cross"] and len(clean.references) == 1


def test_ambiguous_questions_have_every_answer_and_others_none(made):
    cross = [x for x in made if isinstance(x, Sample) and x.meta["modality"] == "cross"]
    assert {s.meta["how"] for s in cross} == {"amb", "ive"}
    for sample in cross:
        assert (len(sample.references) > 1) == sample.answerable == (sample.meta["how"] == "amb")


def test_the_spoilt_picture_has_six_tiles_of_the_mean_colour(made):
    clear, tiled = (decoded(x.data) for x in made[:3] if isinstance(x, Image))
    assert tiled.size == clear.size
    assert len(set(tiled.getdata())) <= 36
    mean = [sum(p[c] for p in clear.getdata()) / (64 * 64) for c in range(3)]
    assert [sum(p[c] for p in tiled.getdata()) / (64 * 64) for c in range(3)] == pytest.approx(mean, abs=1)


def test_too_few_scenes_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SCENES_PER_SAMPLE", 0)
    with pytest.raises(AdapterError, match="0 of 3 scenes after 0 tries"):
        make(tmp_path, per_subset=3)
