"""Every pair has to be what it says on the words a model reads, checked against the scene's own list of objects."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from qualm.registry.scenes.contrast import (
    CATEGORIES,
    FACTS,
    FORMS,
    UNSEEN,
    Query,
    ask_about_object,
    contrast,
    draw_answerable,
    parse_query,
    possible_answers,
    prove,
    refusals,
    word,
)
from qualm.registry.scenes.signs import sign
from qualm.registry.scenes.world import VALUES, make_scene, stream

ASKED = [c for c in CATEGORIES if c != "extraneous"]
SCENES = [make_scene(5, level, "train", i) for level, n in (("easy", 120), ("medium", 60), ("hard", 12)) for i in range(n)]


@pytest.mark.parametrize("category", ASKED)
def test_every_pair_is_proved_and_categories_are_not_rare(category: str) -> None:
    made = [contrast(stream(3, i, category), scene, category) for i, scene in enumerate(SCENES)]
    pairs = [(scene, pair) for scene, pair in zip(SCENES, made, strict=True) if pair is not None]
    assert len(pairs) > 0.6 * len(SCENES)
    for scene, pair in pairs:
        assert pair.answerable.answer is not None
        assert prove(scene, pair.answerable.text, pair.answerable.answer, pair.unanswerable.text) == pair.proof
        assert pair.unanswerable.answer is None
        assert all(text for text in refusals(category, pair.unanswerable.text))


def test_ambiguous_questions_fit_things_that_differ_and_clear_ones_fit_one() -> None:
    """Counted by hand over the objects, without `possible_answers`."""
    seen = 0
    for i, scene in enumerate(SCENES):
        pair = contrast(stream(8, i), scene, "ambiguity")
        if pair is None:
            continue
        seen += 1
        for worded, several in ((pair.answerable, False), (pair.unanswerable, True)):
            query = parse_query(worded.text)
            fits = [t for t in scene["objects"] if all(t[a] == v for a, v in query.of.items())]
            assert (len({t[query.ask] for t in fits}) > 1) is several
            assert several or {t[query.ask] for t in fits} == {worded.answer}
    assert seen > 100


def test_words_and_meaning_are_two_ways_to_say_one_thing() -> None:
    rng = np.random.default_rng(0)
    for ask, when, template in FORMS:
        for _ in range(20):
            phrase = {a: str(rng.choice(v)) for a, v in VALUES.items() if rng.random() < 0.5}
            attribute = str(rng.choice(list(VALUES))) if ask == "attribute" else ask
            query = Query(attribute, phrase, {}, when)
            if ask in ("neither", "either"):
                query = Query(ask, {"color": str(rng.choice(list(VALUES["color"])))}, {"shape": str(rng.choice(VALUES["shape"]))})
            assert parse_query(word(query, template)) == query


def test_facts_of_shapes_and_counts_by_hand() -> None:
    scene = {
        "level": "easy",
        "objects": [
            {"shape": "cube", "size": "large", "color": "red", "material": "rubber"},
            {"shape": "cube", "size": "small", "color": "blue", "material": "metal"},
            {"shape": "sphere", "size": "small", "color": "red", "material": "metal"},
        ],
    }
    for text, expected in (
        ("How many corners does the blue object have?", ("8",)),
        ("Can the sphere roll?", ("yes",)),
        ("How many objects are neither red nor cubes?", ("0",)),
        ("How many objects are either blue or spheres?", ("2",)),
        ("How many red objects are there now?", ("2",)),
        ("Is there a cylinder now?", ("no",)),
        ("What color is the cube?", ("red", "blue")),
        ("What color is the cylinder?", ()),
        ("How heavy is the sphere?", UNSEEN["weight"]),
        ("Will there be a cylinder tomorrow?", ("yes", "no")),
        ("What color was the sphere yesterday?", tuple(VALUES["color"])),
    ):
        assert possible_answers(parse_query(text), scene) == expected, text
    assert FACTS["flat sides"]["cylinder"] == "2"


def test_a_sign_that_can_be_read_fixes_what_nothing_else_does() -> None:
    thing = {"shape": "cube", "size": "large", "color": "red", "material": "rubber"}
    asked = {
        "contents": "What color is inside the red cube?",
        "scratches": "How many scratches are on the cube?",
        "place": "Where was the cube before?",
    }
    hidden = {"contents": tuple(VALUES["color"]), "scratches": UNSEEN["scratches"], "place": ("left", "right", "front", "behind")}
    for ask, question in asked.items():
        value = {"contents": "blue", "scratches": "3", "place": "front"}[ask]
        told, untold = ({"level": "easy", "objects": [{**thing, "signs": {ask: sign(value, readable)}}]} for readable in (True, False))
        assert possible_answers(parse_query(question), told) == (value,)
        assert possible_answers(parse_query(question), untold) == hidden[ask]
        assert len(possible_answers(parse_query(question), {"level": "easy", "objects": [thing]})) == 2
        assert prove(told, question, value, question, untold) == f"{hidden[ask][0]!r} and {hidden[ask][1]!r} fit the same picture"
    gone_on = {"level": "easy", "objects": [{**thing, "signs": {"place": sign("left", True)}}]}
    assert len(possible_answers(parse_query("Where will the cube be next?"), gone_on)) == 2, "a trail says nothing of tomorrow"


@pytest.mark.parametrize(
    ("answerable_text", "answer", "unanswerable_text", "message"),
    [
        ("What color is the cube?", "red", "How heavy is the sphere?", "allows ['red', 'blue']"),
        ("What color is the sphere?", "blue", "How heavy is the sphere?", "allows ['red']"),
        ("What color is the sphere?", "red", "What shape is the blue object?", "exactly one answer: 'cube'"),
        ("What time is it?", "noon", "How heavy is the sphere?", "not a question of ours"),
    ],
)
def test_what_is_no_contrast_is_refused(answerable_text: str, answer: str, unanswerable_text: str, message: str) -> None:
    scene = {
        "level": "easy",
        "objects": [
            {"shape": "cube", "size": "large", "color": "red", "material": "rubber"},
            {"shape": "cube", "size": "small", "color": "blue", "material": "metal"},
            {"shape": "sphere", "size": "small", "color": "red", "material": "metal"},
        ],
    }
    with pytest.raises(ValueError, match=r".*") as caught:
        prove(scene, answerable_text, answer, unanswerable_text)
    assert message in str(caught.value)


def test_a_thing_that_was_taken_away_leaves_its_question_without_an_answer() -> None:
    for i, scene in enumerate(SCENES[:80]):
        asked = ask_about_object(stream(2, i), scene)
        if asked is None or asked.answer is None:
            continue
        gone = {**scene, "objects": [t for k, t in enumerate(scene["objects"]) if k not in asked.about[0]]}
        assert prove(scene, asked.text, asked.answer, asked.text, gone).startswith("nothing here is a ")


def test_answers_of_clear_questions_are_not_lopsided() -> None:
    counts: dict[str, Counter[str]] = {c: Counter() for c in ASKED}
    for i, scene in enumerate(SCENES):
        for category in ASKED:
            made = draw_answerable(stream(4, i, category), scene, category)
            if made is not None and made.answer is not None:
                counts[category][made.answer] += 1
    for category, found in counts.items():
        assert max(found.values()) < 0.5 * sum(found.values()), category
