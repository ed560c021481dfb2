"""Laws that every perturbation keeps; what is labelled cross-modal depends on both the picture and the question."""

import io
import itertools
from functools import cache, partial
from typing import Literal, get_args, get_origin

import annotated_types
import numpy as np
import pytest
from PIL import Image

from qualm.registry.plugins.registry import get, load, names
from qualm.registry.scenes.render import png
from qualm.registry.scenes.world import make_scene
from qualm.runners.contracts.perturbations import random_generator
from tests.support.checks.perturbation_checks import SHAPES, picture
from tests.support.checks.rewriting import context, perturbed, rows
from tests.support.data.hostile import PIECES
from tests.support.models.tiny_clip import tiny_clip

PLAIN = [name for name in names("perturbations") if get("perturbations", name).reads[0] != "context"]
BY_RULES = [name for name in names("perturbations") if get("perturbations", name).reads[0] == "context" and name != "clip_mask"]
BY_CHANCE = {"cutout", "gaussian_noise", "salt_and_pepper", "dropwords", "shuffle", "typos"}
FROM_WEAKEST = {
    "blur": ("radius", 0.0, 1.0, 3.0, 10.0),
    "bright": ("factor", 1.0, 1.5, 4.0, 255.0),
    "contrast": ("factor", 1.0, 0.5, 0.2, 0.0),
    "cutout": ("ratio", 0.0, 0.3, 0.6, 1.0),
    "dark": ("factor", 1.0, 0.6, 0.2, 0.0),
    "dropwords": ("p", 0.0, 0.2, 0.5, 1.0),
    "gaussian_noise": ("sigma", 0.0, 5.0, 30.0, 100.0),
    "jpeg": ("quality", 100, 75, 30, 1),
    "pixelate": ("k", 1.0, 2.0, 5.0, 30.0),
    "salt_and_pepper": ("p", 0.0, 0.1, 0.4, 1.0),
    "saturation": ("factor", 1.0, 0.6, 0.3, 0.0),
    "sharpness": ("factor", 1.0, 0.6, 0.3, 0.0),
    "shuffle": ("k", 0, 1),
    "solarize": ("threshold", 255, 200, 100, 0),
    "typos": ("p", 0.0, 0.2, 0.5, 1.0),
}
"""Perturbation -> its strength and values of it, which change more and more; the first changes nothing, except of jpeg, which rounds."""
ASKED = [
    "What color is the large red metal cube, or the ball?",
    "Is there a sphere, and a cube in front of it?",
    "Name all of the small things.",
]
LONG = ["x " * 5000, "a, " * 3000, "(" * 9000]
CROSS = [name for name in names("perturbations") if get("perturbations", name).declares["MODALITY"] == "cross"]


def values(parameter):
    """Return the default, every choice, and the bounds of a parameter; a number without an upper bound may be infinite."""
    kinds = get_args(parameter.annotation) or (parameter.annotation,)
    if get_origin(parameter.annotation) is Literal:
        return list(kinds)
    if parameter.annotation is bool:
        return [False, True]
    low = next((kind.ge for kind in kinds if isinstance(kind, annotated_types.Ge)), kinds[0](1))
    high = next((kind.le for kind in kinds if isinstance(kind, annotated_types.Le)), float("inf"))
    return [parameter.default, kinds[0](low), kinds[0](high)]


def settings(name):
    """Return the arguments of every combination of the values of a perturbation's parameters; the first are the defaults."""
    parameters = get("perturbations", name).parameters
    combined = [dict(zip((p.name for p in parameters), chosen, strict=True)) for chosen in itertools.product(*map(values, parameters))]
    return sorted(combined, key=lambda args: args != {p.name: p.default for p in parameters})


def items(name):
    if get("perturbations", name).declares["MODALITY"] == "text":
        return [*ASKED, *PIECES, *LONG]
    return [picture(i, size) for i, size in enumerate(SHAPES)]


def content(item):
    return item if isinstance(item, str) else (item.size, item.mode, item.tobytes())


def apply(name, batch, keys, **args):
    return [content(item) for item in load("perturbations", name)(batch, [random_generator(*key) for key in keys], **args)]


def test_every_perturbation_has_laws():
    assert {*PLAIN, *BY_RULES, "clip_mask"} == set(names("perturbations")) and set(FROM_WEAKEST) == set(PLAIN) > BY_CHANCE


@pytest.mark.parametrize("name", PLAIN)
def test_a_result_depends_on_its_item_and_its_random_numbers_alone(name):
    """Whatever the parameters: not on neighbours or order; inputs stay, sizes and modes too; questions end with a mark if they changed."""
    for number, args in enumerate(settings(name)):
        batch = items(name)
        before, keys = [content(item) for item in batch], [(7, "v", str(i)) for i in range(len(batch))]
        made = apply(name, batch, keys, **args)
        assert [content(item) for item in batch] == before
        for old, new in zip(before, made, strict=True):
            if isinstance(old, str):
                assert new == old or (new[-1] in "?？؟;՞" and len(new) <= len(old) + 1), (old, args)
            else:
                assert new[:2] == old[:2], args
        assert apply(name, batch[::-1], keys[::-1], **args) == made[::-1]
        if number < 4:
            assert [apply(name, [item], [key], **args)[0] for item, key in zip(batch, keys, strict=True)] == made


@pytest.mark.parametrize("name", PLAIN)
def test_chance_comes_from_seed_variant_and_sample(name):
    item = "a, b, c, d, e, f, g, h or a number of other things in the picture?" if isinstance(items(name)[0], str) else picture(99)
    keys = [(7, "v", "a"), (7, "v", "b"), (7, "w", "a"), (8, "v", "a")]
    assert apply(name, [item], keys[:1]) == apply(name, [item], keys[:1])
    assert len(set(apply(name, [item] * 4, keys))) == (4 if name in BY_CHANCE else 1)


@pytest.mark.parametrize("name", PLAIN)
def test_the_weakest_changes_nothing_and_stronger_ones_more(name):
    parameter, *strengths = FROM_WEAKEST[name]
    given = ASKED * 20 if isinstance(items(name)[0], str) else [picture(1), picture(2, (3, 3)).resize((64, 48))]
    keys = [(7, "v", str(i)) for i in range(len(given))]

    def change(strength):
        made = load("perturbations", name)(given, [random_generator(*key) for key in keys], **{parameter: strength})
        assert all(new is not old or isinstance(new, str) for new, old in zip(made, given, strict=True))
        if isinstance(given[0], str):
            return np.mean([1 - len(set(enumerate(new)) & set(enumerate(old))) / len(old) for new, old in zip(made, given, strict=True)])
        return np.mean([np.abs(np.asarray(new, float) - np.asarray(old, float)).mean() for new, old in zip(made, given, strict=True)])

    changed = [change(strength) for strength in strengths]
    assert changed == sorted(set(changed)) and (changed[0] == 0 or name == "jpeg"), changed
    for args in settings(name) if name != "jpeg" else []:
        if args.get("reading") == "grid":
            continue  # then pixelate's strength counts blocks, not pixels
        batch = items(name)
        made = apply(name, batch, [(7, "v", "a")] * len(batch), **args | {parameter: strengths[0]})
        assert made == [content(item) for item in batch], args


def test_each_way_to_rewrite_writes_other_questions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    alone = [name for name in BY_RULES if get("perturbations", name).declares["MODALITY"] == "text"]
    written = [set(perturbed(name, ["What color is the red cube?"] * 40)[0]) for name in alone]
    assert len(alone) >= 2 and sum(map(len, written)) == len(set.union(*written))


@pytest.mark.parametrize("name", BY_RULES)
def test_rules_leave_hostile_questions_alone(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = [q for q in [*PIECES, *LONG] if q != "What color is the red cube?"]
    made, given = perturbed(name, asked)
    assert made == [None] * len(asked) and dict(given.dropped) == {"no rule for it": len(asked)}


@cache
def scenes():
    return [make_scene(1, "easy", "test", i) for i in range(150)]


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
