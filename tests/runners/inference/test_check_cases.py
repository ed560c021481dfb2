"""What a model is examined with: made-up scenes of three shapes, or the first questions of a dataset that have pictures."""

import hashlib

import numpy as np
import PIL.Image
import pytest

from qualm.registry.scenes.render import render
from qualm.registry.scenes.world import make_scene
from qualm.runners.inference.check_cases import Case, dataset_cases, scene_cases
from qualm.runners.runtime.stage import StageError
from tests.support.projects.asking import picture, png, sample, write_samples


def digest(image):
    return hashlib.sha256(image.tobytes() + repr(image.size).encode()).hexdigest()


def stream(number):
    return int.from_bytes(hashlib.sha256(f"doctor {number}".encode()).digest()[:16], "big")


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 5, 6])
def test_scenes_come_in_three_shapes_and_the_last_two_are_about_the_first(n):
    cases = scene_cases(n)
    shapes = [(224, 224), (336, 224), (224, 300)]
    numbers = [*range(n - 2), 0, 0]
    assert [c.image.size for c in cases] == [shapes[i % 3] for i in numbers]
    assert [c.pixels for c in cases] == [digest(c.image) for c in cases] and len({c.pixels for c in cases}) == n - 2
    assert [c.stream for c in cases] == [stream(i) for i in range(n)]
    assert {c.choices for c in cases} == {("yes", "no", "I don't know")} and len({c.question for c in cases}) == n


def test_a_scene_is_drawn_whole_on_grey():
    second = scene_cases()[1].image
    drawn = PIL.Image.fromarray(render(make_scene(7, "hard", "test", 1))).resize((224, 224), PIL.Image.Resampling.BICUBIC)
    assert (np.asarray(second)[:, :56] == 128).all() and (np.asarray(second)[:, 280:] == 128).all()
    assert (np.asarray(second)[:, 56:280] == np.asarray(drawn)).all()


@pytest.fixture
def folder(tmp_path):
    names = ["none", "a", "b", "c", "d", "e"]
    rows = [sample(n, None if n == "none" else n, f"What is {n}?", ["x", "y"] if n == "b" else ()) for n in names]
    return write_samples(tmp_path / "d", rows, {n: png(picture(i)) for i, n in enumerate(names)})


@pytest.mark.parametrize(("n", "names"), [(2, "a"), (3, "ab"), (5, "abcd"), (6, "abcde"), (9, "abcde")])
def test_the_first_questions_with_pictures_and_one_more_about_the_first(folder, n, names):
    cases = dataset_cases(folder, n)
    assert [c.question for c in cases] == [*(f"What is {name}?" for name in names), "What else is there to see?"]
    assert [c.pixels for c in cases] == [digest(c.image) for c in cases] and cases[-1].pixels == cases[0].pixels
    assert [c.stream for c in cases] == [*(stream(i + 1) for i in range(len(names))), stream(len(names))]
    assert all(c.choices == (("x", "y") if "is b" in c.question else Case("", None).choices) for c in cases)


def test_one_case_is_the_first_question(folder):
    assert [c.question for c in dataset_cases(folder, 1)] == ["What is a?"]


def test_questions_without_an_image_are_taken_where_none_has_exactly_one(tmp_path):
    several = sample("b", '["i", "j"]', "?")
    folder = write_samples(tmp_path / "d", [sample("a", None, "Why?"), several], {n: png(picture(1)) for n in "ij"})
    (case,) = dataset_cases(folder)
    assert case.question == "Why?" and case.image is None
    folder = write_samples(tmp_path / "e", [several], {n: png(picture(1)) for n in "ij"})
    with pytest.raises(StageError, match=rf"^{folder}: every sample has several images; name a spec that has some with one image, "):
        dataset_cases(folder)
