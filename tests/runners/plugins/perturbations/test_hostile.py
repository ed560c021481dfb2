"""Every perturbation on questions and pictures that were never meant for it: it neither crashes, hangs nor writes nonsense."""

import pytest
from PIL import Image

from qualm.registry.plugins.registry import get, load, names
from qualm.runners.contracts.perturbations import random_generator
from tests.support.checks.rewriting import perturbed
from tests.support.data.hostile import questions


def plain(modality):
    """The perturbations of a modality that need nothing but the item."""
    found = [get("perturbations", name) for name in names("perturbations")]
    return [p.name for p in found if p.declares["MODALITY"] == modality and p.reads[0] != "context"]


@pytest.mark.slow
@pytest.mark.parametrize("name", plain("text"))
def test_five_hundred_hostile_questions(name):
    asked = questions()
    assert len(asked) >= 500 and max(map(len, asked)) >= 100_000
    rngs = [random_generator(7, name, str(i)) for i in range(len(asked))]
    made = load("perturbations", name)(asked, rngs)
    assert len(made) == len(asked)
    for before, after in zip(asked, made, strict=True):
        assert (isinstance(after, str) and after.encode() and len(after) <= len(before) + 1) or after == before == ""
        assert after == before or after[-1] in "?？؟;՞"
    again = load("perturbations", name)(asked[::-1], [random_generator(7, name, str(i)) for i in range(len(asked))][::-1])
    assert again[::-1] == made


@pytest.mark.parametrize("name", plain("image"))
@pytest.mark.parametrize("size", [(1, 1), (2, 3000), (3000, 2)])
def test_pictures_of_extreme_shapes(name, size):
    image = Image.effect_noise(size, 90).convert("RGB")
    (made,) = load("perturbations", name)([image], [random_generator(7, name, "a")])
    assert (made.size, made.mode) == (size, "RGB")


@pytest.mark.parametrize("name", ["inv", "sbj", "amb", "ive"])
def test_rules_leave_hostile_questions_alone(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = [q for q in questions() if q != "What color is the red cube?"]
    made, given = perturbed(name, asked)
    assert made == [None] * len(asked) and dict(given.dropped) == {"no rule for it": len(asked)}
