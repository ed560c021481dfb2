"""The questions are whole without scikit-image; the photographs are read where it is installed."""

import importlib.util
import io
from collections import Counter
from importlib.machinery import ModuleSpec
from pathlib import Path

import PIL.Image
import pytest

from qualm.registry.adapters import AdapterContext, AdapterError, skimage_photos
from qualm.registry.sample import Image, Sample
from qualm.runners.plugins.judges.rules import rules

SPEC = importlib.util.find_spec("skimage")
installed = pytest.mark.skipif(SPEC is None, reason="scikit-image, which brings the photographs, is not installed")


@pytest.fixture
def without_photographs(monkeypatch):
    monkeypatch.setattr(skimage_photos, "read_photograph", lambda name: Image(Path(name).stem, b"", name))


def read(folder, **more):
    made = list(skimage_photos.skimage_photos(AdapterContext(folder, **more)))
    return [x for x in made if isinstance(x, Sample)], [x for x in made if isinstance(x, Image)]


def test_half_of_the_questions_are_unanswerable_for_a_reason_of_the_taxonomy(tmp_path, without_photographs):
    samples, images = read(tmp_path)
    assert len(samples) == 100 and len({s.sample_id for s in samples}) == 100 and len({s.question for s in samples}) >= 95
    assert {i.path for i in images} == set(skimage_photos.PHOTOGRAPHS) and len(images) == 15
    for answerable, unanswerable in zip(samples[::2], samples[1::2], strict=True):
        assert answerable.answerable and not unanswerable.answerable
        assert answerable.pair_id == unanswerable.pair_id and answerable.image_id == unanswerable.image_id == answerable.group
        assert answerable.meta["form"] == unanswerable.meta["form"]
    reasons = Counter(s.category for s in samples if not s.answerable)
    assert set(reasons) == set(skimage_photos.ABSTENTIONS) and min(reasons.values()) >= 8


def test_the_judge_reads_every_reference(tmp_path, without_photographs):
    samples, _ = read(tmp_path)
    answers = [(s, text) for s in samples for text in s.references]
    given = [list(s.references) if s.answerable else [] for s, _ in answers]
    judged = rules([s.question for s, _ in answers], given, [text for _, text in answers])
    assert [(s.question, text) for (s, text), verdict in zip(answers, judged, strict=True) if verdict.rating != 1.0] == []
    assert [(s.question, text) for (s, text), verdict in zip(answers, judged, strict=True) if verdict.pred_is_idk == s.answerable] == []


def test_options_are_lines_and_their_letter_is_an_answer(tmp_path, without_photographs):
    samples = [s for s in read(tmp_path)[0] if s.meta["form"] == "choice"]
    assert len(samples) == 10
    for sample in samples:
        assert [line[:3] for line in sample.question.splitlines()[1:]] == ["A. ", "B. ", "C. ", "D. "]
        named = [line[0] for line in sample.question.splitlines()[1:] if line[3:] in sample.references]
        assert named == [r for r in sample.references if len(r) == 1]


def test_without_scikit_image(tmp_path, monkeypatch):
    monkeypatch.setattr(skimage_photos, "find_spec", lambda name: None)
    with pytest.raises(AdapterError, match=r"scikit-image, which is not installed: `pip install 'qualm-bench\[photographs\]'`"):
        read(tmp_path)


def test_another_photograph_of_the_same_name(tmp_path, monkeypatch):
    spec = ModuleSpec("skimage", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(skimage_photos, "find_spec", lambda name: spec)
    with pytest.raises(AdapterError, match=r"astronaut\.png: expected a photograph of scikit-image, found none"):
        read(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/astronaut.png").write_bytes(b"another")
    with pytest.raises(AdapterError, match=r"astronaut\.png: not the photograph that the questions are about"):
        read(tmp_path)


def test_a_selection_comes_with_its_photographs_alone(tmp_path, without_photographs):
    samples, images = read(tmp_path, selects=lambda s: s.group == "coffee" and not s.answerable)
    assert len(samples) == 5 and [i.image_id for i in images] == ["coffee"]


@installed
def test_the_photographs_open(tmp_path):
    _, images = read(tmp_path)
    assert len(images) == 15
    for image in images:
        with PIL.Image.open(io.BytesIO(image.data)) as picture:
            picture.load()
            assert min(picture.size) >= 172
