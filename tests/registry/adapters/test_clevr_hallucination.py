"""Every question is read again from its words and answered by brute force over the scene."""

import json
import re
from collections import Counter

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.clevr_hallucination import clevr_hallucination
from qualm.registry.sample import Image, Sample
from qualm.registry.scenes.render import png
from tests.support.checks.scene_oracle import answer, fits
from tests.support.data.clevr_folder import clevr_folder


def make(folder, source=None, seed=7, **arguments):
    made = list(clevr_hallucination(AdapterContext(folder, seed, source), **arguments))
    return [x for x in made if isinstance(x, Sample)], {x.image_id: x for x in made if isinstance(x, Image)}


def scenes_of(folder, split):
    return {s["image_filename"]: s for s in json.loads((folder / f"scenes/CLEVR_{split}_scenes.json").read_text())["scenes"]}


def hold_to_the_oracle(samples, images, scenes):
    """The answers, the referents and the absences, by an evaluator of its own."""
    for sample in samples:
        scene = scenes[images[sample.image_id].path]
        assert sample.references == (answer(scene, sample.question),)  # `the` in it demands one referent
        if sample.category == "existence":
            phrase = re.fullmatch(r"(?:Is there a|Are there any) (.+)\?", sample.question)[1]
            assert any(fits(thing, phrase) for thing in scene["objects"]) == (sample.references == ("yes",))
        if sample.category == "relation" and sample.meta["kind"] == "relation":
            first, side, second = re.fullmatch(r"Is the (.+) (left of|right of|in front of|behind) the (.+)\?", sample.question).groups()
            (a,), (b,) = ([t for t in scene["objects"] if fits(t, name)] for name in (first, second))
            axis = 0 if side in ("left of", "right of") else 1
            assert abs(a["3d_coords"][axis] - b["3d_coords"][axis]) > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_every_answer_holds(tmp_path, level):
    samples, images = make(tmp_path, level=level, per_type=12)
    hold_to_the_oracle(samples, images, scenes_of(tmp_path, "test"))
    assert Counter(s.category for s in samples) == dict.fromkeys(("attribute", "existence", "counting", "relation"), 12)
    assert len({(s.image_id, s.category) for s in samples}) == len({s.sample_id for s in samples}) == 48


@pytest.mark.slow
def test_no_constant_answer_does_well(tmp_path):
    samples, _ = make(tmp_path, per_type=60)
    of = {kind: Counter(s.references[0] for s in samples if s.category == kind) for kind in ("existence", "relation", "counting")}
    assert of["existence"] == of["relation"] == {"yes": 30, "no": 30}
    assert of["counting"] == dict.fromkeys("01234", 12)
    attributes = [s for s in samples if s.category == "attribute"]
    assert Counter(s.meta["kind"] for s in attributes) == dict.fromkeys(("size", "color", "material", "shape"), 15)
    assert max(Counter(s.references[0] for s in attributes if s.meta["kind"] == "color").values()) == 2
    assert Counter(s.references[0] for s in attributes if s.meta["kind"] == "shape") == dict.fromkeys(("cube", "sphere", "cylinder"), 5)


def test_scenes_drawn_here_are_those_of_synthetic_scenes(tmp_path):
    samples, images = make(tmp_path, per_type=3)
    scenes = scenes_of(tmp_path, "test")
    assert {image.path for image in images.values()} == set(scenes)
    for image in images.values():
        assert png(scenes[image.path]) == image.data
    assert samples[0].image_id.startswith("easy7-test-")


@pytest.mark.slow
def test_of_clevr_s_own_files(tmp_path):
    source = clevr_folder(tmp_path / "source", 60)
    samples, images = make(tmp_path, source, per_type=10)
    hold_to_the_oracle(samples, images, scenes_of(source, "val"))
    assert Counter(s.category for s in samples) == dict.fromkeys(("attribute", "existence", "counting", "relation"), 10)
    assert {s.split for s in samples} == {"val"} and "level" not in samples[0].meta
    for image_id, image in images.items():
        assert image.data == (source / f"images/val/{image_id}.png").read_bytes()
    kept = scenes_of(tmp_path, "val")
    assert set(kept) == {image.path for image in images.values()}


@pytest.mark.slow
def test_borderline_relations_are_not_asked(tmp_path):
    """Objects moved to within the margin of each other along one axis, as CLEVR's own generator would record them."""
    source = clevr_folder(tmp_path / "source", 40)
    path = source / "scenes/CLEVR_val_scenes.json"
    whole = json.loads(path.read_text())
    for scene in whole["scenes"]:
        for thing in scene["objects"]:
            thing["3d_coords"][0] = round(thing["3d_coords"][0] * 0.02, 4)
        for side in ("left", "right"):
            scene["relationships"][side] = [[] for _ in scene["objects"]]
    path.write_text(json.dumps(whole))
    samples, _ = make(tmp_path, source, per_type=6, types=["relation"])
    assert all(re.search("in front of|behind", s.question) for s in samples)


def test_a_wider_margin(tmp_path):
    samples, images = make(tmp_path, per_type=8, types=["relation"], margin=1.5)
    scenes = scenes_of(tmp_path, "test")
    for sample in samples:
        scene = scenes[images[sample.image_id].path]
        first, side, second = re.fullmatch(r"Is the (.+) (left of|right of|in front of|behind) the (.+)\?", sample.question).groups()
        (a,), (b,) = ([t for t in scene["objects"] if fits(t, name)] for name in (first, second))
        axis = 0 if side in ("left of", "right of") else 1
        assert abs(a["3d_coords"][axis] - b["3d_coords"][axis]) > 1.5


def test_too_few_scenes_and_bad_types(tmp_path):
    source = clevr_folder(tmp_path / "source", 5)
    with pytest.raises(AdapterError, match=r"5 scenes gave only .* of .*next wanted: .*expected 50 of each type, lower `per_type`"):
        make(tmp_path, source, per_type=50)
    with pytest.raises(AdapterError, match="types: expected different ones"):
        make(tmp_path, types=["counting", "counting"])
    with pytest.raises(
        AdapterError, match=r"CLEVR_test_scenes\.json: expected a CLEVR scenes file, found none; scenes are released for train and val"
    ):
        make(tmp_path, source, split="test")


@pytest.mark.slow
@pytest.mark.parametrize("relations", ["directions", "both"])
def test_what_lies_in_a_direction(tmp_path, relations):
    """One object is there and every other clearly on the opposite side, so that each answer holds; each value is as often right."""
    samples, images = make(tmp_path, per_type=32, types=["relation"], relations=relations)
    hold_to_the_oracle(samples, images, scenes_of(tmp_path, "test"))
    kinds = Counter(s.meta["kind"].partition("/")[0] for s in samples)
    assert kinds == ({"direction": 32} if relations == "directions" else {"direction": 16, "relation": 16})
    attributes = Counter(s.meta["kind"] for s in samples if s.meta["kind"] != "relation")
    assert set(attributes.values()) == {kinds["direction"] // 4} and {s.category for s in samples} == {"relation"}
    sizes = Counter(s.references[0] for s in samples if s.meta["kind"] == "direction/size")
    assert sizes["large"] == sizes["small"]


def test_other_types_ask_the_same_whatever_relations_ask(tmp_path):
    sides, _ = make(tmp_path / "a", per_type=8, types=["attribute", "counting"])
    both, _ = make(tmp_path / "b", per_type=8, types=["attribute", "counting"], relations="both")
    assert sides == both
