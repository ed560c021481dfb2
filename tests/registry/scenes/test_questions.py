"""The oracle is checked by reading the question's English again and answering it by brute force over the scene."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qualm.registry.scenes.questions import BESIDES, KINDS, NEITHER, OPTION_KINDS, _pair, ask, ask_any, referents
from qualm.registry.scenes.world import make_scene, stream
from tests.support.checks.scene_oracle import WORDS, answer, fits


@settings(max_examples=80)
@given(st.integers(0, 10**9), st.sampled_from(["easy", "medium", "hard"]), st.sampled_from(KINDS))
def test_open_answers_hold(seed, level, kind):
    scene = make_scene(seed, level, "test", 0)
    question = ask(stream(seed), scene, kind)
    if question is not None:
        assert question.kind == kind and question.choices == ()
        assert answer(scene, question.text) == question.answer


@settings(max_examples=80)
@given(st.integers(0, 10**9), st.sampled_from(["easy", "medium", "hard"]), st.sampled_from(OPTION_KINDS))
def test_options_hold_one_right_answer(seed, level, kind):
    scene = make_scene(seed, level, "test", 0)
    question = ask(stream(seed), scene, kind, multiple_choice=True)
    if question is None:
        return
    assert len(set(question.choices)) == len(question.choices) == 6
    assert question.choices[4:] == NEITHER
    assert question.answer_index in range(4)
    assert question.choices[question.answer_index] == question.answer
    if kind == "existence":
        there = [any(fits(o, choice.removeprefix("a ")) for o in scene["objects"]) for choice in question.choices[:4]]
        assert there == [k == question.answer_index for k in range(4)]
    else:
        assert answer(scene, question.text) == question.answer


def test_right_place_and_yes_are_balanced():
    places, answers = Counter(), Counter()
    for i in range(800):
        scene = make_scene(5, "easy", "test", i)
        places[ask(stream(i), scene, "counting", True).answer_index] += 1
        answers[ask(stream(i), scene, "existence").answer] += 1
    assert all(150 < places[k] < 250 for k in range(4))
    assert 340 < answers["yes"] < 460


def test_kinds_the_scene_cannot_offer_give_way():
    scene = make_scene(5, "easy", "test", 0)
    alone = {**scene, "objects": scene["objects"][:1], "relationships": {k: [[]] for k in scene["relationships"]}}
    assert ask(stream(0), alone, "relation") is None
    assert ask_any(stream(0), alone, ["relation"]) is None
    assert ask_any(stream(0), alone, ["relation", "counting"]).kind == "counting"


def test_size_has_no_options():
    with pytest.raises(KeyError):
        ask(stream(0), make_scene(5, "easy", "test", 0), "size", True)
    assert not {v for vs in BESIDES.values() for v in vs} & set(WORDS)


def test_two_objects_are_enough_for_a_relation_and_one_is_not():
    counts = Counter()
    for index in range(200):
        scene = make_scene(3, "easy", "test", index)
        pair = _pair(stream(3, index, "pair"), scene)
        named = {i for i, _ in referents(scene)}
        counts[min(len(named), 2), pair is not None] += len(named) <= 2
        assert (pair is not None) == (len(named) >= 2) and (pair is None or pair[0] != pair[2])
    assert counts[2, True] and counts[1, False]
