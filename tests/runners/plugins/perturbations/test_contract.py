"""What is labelled cross-modal depends on both the picture and the question."""

import io
from functools import cache, partial

import pytest
from PIL import Image

from qualm.registry.plugins.registry import get, load, names
from qualm.registry.scenes.render import png
from qualm.registry.scenes.world import make_scene
from qualm.runners.contracts.perturbations import random_generator
from tests.support.checks.rewriting import context, rows
from tests.support.models.tiny_clip import tiny_clip

CROSS = [name for name in names("perturbations") if get("perturbations", name).declares["MODALITY"] == "cross"]


@cache
def scenes():
    return [make_scene(1, "easy", "test", i) for i in range(400)]


def changes(name, tmp_path, scenes_shown, questions):
    """What a perturbation does to each picture and question: what is new of picture and question, and what it says of them."""
    args = {"artifact": str(tiny_clip(tmp_path / "clip"))} if name == "clip_mask" else {}
    images = [Image.open(io.BytesIO(png(scene))).convert("RGB") for scene in scenes_shown]
    given = context(rows(questions), {f"i{i}": scene for i, scene in enumerate(scenes_shown)})
    rngs = [random_generator(7, "v", "a") for _ in questions]  # chance is the same for all
    made = partial(load("perturbations", name), **args)(given, list(zip(images, questions, strict=True)), rngs)
    found = []
    for image, question, item, facts in zip(images, questions, made, given.facts, strict=True):
        if item is not None:
            picture, words = item
            lost = bytes(a - b & 255 for a, b in zip(image.tobytes(), picture.tobytes(), strict=True))
            found.append((lost if any(lost) else None, words if words != question else None, tuple(sorted(facts.items()))))
    return found


def test_there_are_some():
    assert CROSS == ["amb", "clip_mask", "ive"]


@pytest.mark.parametrize("name", CROSS)
def test_three_questions_on_one_picture_differ(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scene = next(
        s for s in scenes() if [len({o[a] for o in s["objects"]}) for a in ("color", "shape")] == [4, 2] and len(s["objects"]) == 4
    )
    asked = [f"What {a} is the {thing['color']} {thing['shape']}?" for thing in scene["objects"] for a in ("color", "shape")]
    found = changes(name, tmp_path, [scene] * len(asked), asked)
    assert len(found) >= 3 and len(set(found)) >= 3, found


@pytest.mark.parametrize("name", CROSS)
def test_one_question_on_three_pictures_differs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with_red_cube = [
        s for s in scenes() if any((o["color"], o["shape"]) == ("red", "cube") for o in s["objects"]) and len(s["objects"]) > 3
    ]
    found = changes(name, tmp_path, with_red_cube[:8], ["What color is the red cube?"] * len(with_red_cube[:8]))
    assert len(set(found)) >= 3, found


def test_answers_are_held_to_no_reference_where_another_question_is_asked():
    """Of these accuracy, and all that reads it, is undefined; of every other one an answer stays right or wrong."""
    assert {name for name in names("perturbations") if not get("perturbations", name).declares.get("KEEPS_ANSWER", True)} == {
        *("amb", "inv", "ive", "sbj"),
    }
