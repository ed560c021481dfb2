"""Three samples of each scene, the same question by the same name, and the truth of what was spoilt."""

import io
from collections import Counter

import numpy as np
import PIL.Image
import pytest

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.spoilt_scenes import META, spoilt_scenes
from qualm.registry.sample import Image, Sample
from qualm.registry.scenes.spoiling import PICTURES, QUESTIONS
from tests.support.checks.scene_oracle import answer


def make(folder, seed=7, selects=lambda sample: True, **arguments):
    made = list(spoilt_scenes(AdapterContext(folder, seed, selects=selects), **arguments))
    return [x for x in made if isinstance(x, Sample)], {x.image_id: x for x in made if isinstance(x, Image)}


def pixels(image):
    return np.asarray(PIL.Image.open(io.BytesIO(image.data)))


@pytest.mark.parametrize("level", ["easy", pytest.param("hard", marks=pytest.mark.slow)])
def test_each_scene_is_there_three_times(tmp_path, level):
    samples, images = make(tmp_path, level=level, scenes=36)
    assert len(samples) == len({s.sample_id for s in samples}) == 108 and len(images) == 72
    for clean, picture, question in zip(samples[::3], samples[1::3], samples[2::3], strict=True):
        assert len({s.group for s in (clean, picture, question)}) == len({s.references for s in (clean, picture, question)}) == 1
        assert [s.meta["spoilt"] for s in (clean, picture, question)] == ["none", "picture", "question"]
        assert [s.meta["modality"] for s in (clean, picture, question)] == ["clean", "image", "text"]
        assert picture.question == clean.question != question.question and question.image_id == clean.image_id != picture.image_id
        assert (pixels(images[picture.image_id]) != pixels(images[clean.image_id])).any()
        assert set(clean.meta) == set(META)
    kinds = Counter(s.meta["how"] for s in samples)
    assert kinds == {"as it is": 36, **dict.fromkeys((*PICTURES, *QUESTIONS), 6)}


def test_the_clean_answers_are_right(tmp_path):
    import json

    samples, images = make(tmp_path, scenes=12)
    scenes = {s["image_filename"]: s for s in json.loads((tmp_path / "scenes/CLEVR_test_scenes.json").read_text())["scenes"]}
    assert all(s.references == (answer(scenes[images[s.image_id].path], s.question),) for s in samples[::3])
