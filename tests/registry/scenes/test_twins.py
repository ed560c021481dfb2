"""Two pictures, two questions: each picture answers one of them, which is read here from the pictures' own worlds."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import numpy as np
import pytest

from qualm.registry.scenes.contrast import CATEGORIES, parse_query, possible_answers, prove
from qualm.registry.scenes.render import render
from qualm.registry.scenes.signs import READABLE, sign
from qualm.registry.scenes.twins import is_held_out, twins
from qualm.registry.scenes.world import LEVELS, VALUES, make_scene, stream, visible_shares
from tests.support.checks.scene_oracle import fits

SCENES = [make_scene(5, "easy", "train", i) for i in range(80)]
SIGNS = {"knowledge": "contents", "complexity": "scratches", "temporal": "place"}


def make_pairs(scenes, category, held_out=None):
    drawn = [twins(stream(3, i, category), scene, category, held_out) for i, scene in enumerate(scenes)]
    return [pair for pair in drawn if pair is not None]


@cache
def made(category, held_out=None):
    return make_pairs(SCENES, category, held_out)


@cache
def scenes_of(level):
    return [make_scene(5, level, "train", i) for i in range(12 if level == "medium" else 8)]


@pytest.mark.parametrize("category", CATEGORIES)
def test_each_picture_answers_one_question_and_each_question_is_answered_once(category):
    pairs = made(category)
    assert len(pairs) > 15
    for pair in pairs:
        table = [[len(possible_answers(parse_query(q), s)) == 1 for q in pair.questions] for s in pair.scenes]
        assert table == [[True, False], [False, True]]
        assert len(set(pair.questions)) == 2
        for k in range(2):
            proof = prove(pair.scenes[k], pair.questions[k], pair.answers[k], pair.questions[k], pair.scenes[1 - k])
            assert pair.proofs[k] == f"one image has the only answer {pair.answers[k]!r}; in the other {proof}"


@pytest.mark.parametrize("category", CATEGORIES)
def test_questions_differ_in_the_object_alone(category):
    for pair in made(category):
        templates = {q.replace(noun(q), "x") for q in pair.questions}
        assert len(templates) == 1


def noun(question):
    """The words between the last "the" and what follows the name."""
    return re.findall(r"the ((?:\w+ )?(?:cube|sphere|cylinder|object))\b", question)[-1]


@pytest.mark.parametrize("category", SIGNS)
def test_where_there_is_no_answer_other_worlds_look_the_same(category):
    """The proof is about the pictures: another value of what is asked for gives the same pixels, or, where it is answered, others."""
    ask = SIGNS[category]
    for pair in made(category)[:3]:
        pictures = [render(scene) for scene in pair.scenes]
        for k, question in enumerate(pair.questions):
            for picture in range(2):
                scene = pair.scenes[picture]
                (i,) = [n for n, thing in enumerate(scene["objects"]) if fits(thing, noun(question))]
                entry = scene["objects"][i]["signs"][ask]
                assert entry["readable"] == (picture == k)
                values = READABLE[ask] if ask != "scratches" or entry["readable"] else ("207", "853")
                others = [other(scene, i, ask, sign(v, entry["readable"])) for v in values[:4] if v != entry["value"]]
                same = [(render(o) == pictures[picture]).all() for o in others]
                assert same
                assert all(same) if picture != k else not any(same)
                assert picture != k or entry["value"] == pair.answers[k]


def other(scene, i, ask, entry):
    things = [dict(thing) for thing in scene["objects"]]
    things[i]["signs"] = {ask: entry}
    return {**scene, "objects": things}


@pytest.mark.parametrize("category", ["extraneous", "ambiguity"])
def test_what_is_not_there_or_there_twice_is_counted_by_hand(category):
    for pair in made(category):
        for k, question in enumerate(pair.questions):
            own, other_picture = (
                [t for t in scene["objects"] if fits(t, noun(question))] for scene in (pair.scenes[k], pair.scenes[1 - k])
            )
            assert {t[pair.asks] for t in own} == {pair.answers[k]}
            assert len({t[pair.asks] for t in other_picture}) == (0 if category == "extraneous" else 2)


@pytest.mark.parametrize("category", CATEGORIES)
def test_changed_things_stand_as_things_of_our_world_stand(category):
    """A cylinder made a cube is as low as a cube is; nothing is hidden more than the level allows by much."""
    heights = {("cube", "large"): 0.495, ("cube", "small"): 0.2475}
    for pair in made(category):
        for scene in pair.scenes:
            for thing in scene["objects"]:
                z = heights.get((thing["shape"], thing["size"]), {"large": 0.7, "small": 0.35}[thing["size"]])
                assert thing["3d_coords"][2] == pytest.approx(z, abs=1e-3)
            assert min(visible_shares(scene["objects"], LEVELS["easy"])) > 0.7


def test_the_names_held_out_are_two_colors_of_each_shape_and_kept_apart():
    names = [(c, s) for c in VALUES["color"] for s in VALUES["shape"] if is_held_out(c, s)]
    assert Counter(s for _, s in names) == dict.fromkeys(VALUES["shape"], 2)
    assert len({c for c, _ in names}) == 6
    for category in SIGNS:
        for held_out in (True, False):
            pairs = made(category, held_out=held_out)
            assert len(pairs) > 10
            assert {is_held_out(*noun(q).split()) for pair in pairs for q in pair.questions} == {held_out}


def test_answers_are_not_lopsided():
    for category in SIGNS:
        counts = Counter(a for pair in made(category) for a in pair.answers)
        assert max(counts.values()) < 0.5 * sum(counts.values()), category


def test_one_object_offers_nothing_and_an_unknown_category_is_an_error():
    alone = {**SCENES[0], "objects": SCENES[0]["objects"][:1]}
    assert all(twins(np.random.default_rng(0), alone, category) is None for category in CATEGORIES)
    with pytest.raises(KeyError):
        twins(np.random.default_rng(0), SCENES[0], "taste")


@pytest.mark.parametrize("level", ["medium", "hard"])
@pytest.mark.parametrize("category", CATEGORIES)
def test_other_levels_offer_them_too(level, category):
    assert make_pairs(scenes_of(level), category)
