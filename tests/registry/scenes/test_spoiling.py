"""Damage done on purpose: it changes what it is done to, keeps its shape, and does what its name says."""

import numpy as np
import pytest

from qualm.registry.scenes.questions import KINDS, ask
from qualm.registry.scenes.render import render
from qualm.registry.scenes.spoiling import BAR, FOG, PARTS, PICTURES, QUESTIONS, TILES
from qualm.registry.scenes.world import COLORS, SHAPES, make_scene

PIXELS = render(make_scene(1, "easy", "test", 0))


def spoilt(name, pixels=PIXELS, seed=0):
    return PICTURES[name](pixels, np.random.default_rng(seed))


def said(name, question, seed=0):
    return QUESTIONS[name](question, np.random.default_rng(seed))


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_a_picture_keeps_its_shape_and_is_another(name, level):
    pixels = render(make_scene(1, level, "test", 0))
    before = pixels.copy()
    made = spoilt(name, pixels)
    assert (made.shape, made.dtype) == (pixels.shape, np.uint8) and np.array_equal(pixels, before)
    assert np.abs(made.astype(float) - pixels).mean() > 3
    assert np.array_equal(made, spoilt(name, pixels))


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_is_changed_the_same_way_again(name):
    for index in range(30):
        scene = make_scene(2, "easy", "test", index)
        for kind in KINDS:
            question = ask(np.random.default_rng(index), scene, kind)
            if question is not None:
                made = said(name, question.text, index)
                assert made and made != question.text and made == said(name, question.text, index)


def test_pictures_by_hand():
    grey, share = FOG
    assert np.abs(spoilt("foggy") - (grey + share * (PIXELS - grey))).max() <= 0.5 + 1e-9
    assert len(np.unique(spoilt("tiled").reshape(-1, 3), axis=0)) <= TILES**2
    assert 0.4 < np.any(spoilt("speckled") != PIXELS, axis=-1).mean() < 0.6
    dark = ~spoilt("barred").any(axis=(0, 2))
    assert 0.55 < dark.mean() < 0.8 and dark[:BAR].sum() == BAR * 2 // 3
    side = len(PIXELS) // PARTS
    parts = [
        sorted(p[y : y + side, x : x + side].sum() for y in range(0, 64, side) for x in range(0, 64, side))
        for p in (PIXELS, spoilt("scrambled"))
    ]
    assert parts[0] == parts[1]
    row = np.zeros((1, 9, 3), np.uint8)
    row[0, 3] = 90
    assert spoilt("smeared", row)[0, :, 0].tolist() == [0, 0, 0, 30, 30, 30, 0, 0, 0]


def test_questions_by_hand():
    text = "What color is the large cube?"
    assert sorted(said("jumbled", text)[:-1].split()) == sorted(text[:-1].split()) and said("jumbled", text).endswith("?")
    assert said("vague", text) == "What color is the thing?"
    assert not {*COLORS, *SHAPES} & set(said("vague", "Is the red cube left of the blue sphere?").split())
    assert (
        said("gapped", text) == "What ... is the ... cube?"
        and said("cut", text).endswith(" ...")
        and text.startswith(said("cut", text)[:-4])
    )
    assert [sorted(w) for w in said("misspelt", text).split()] == [sorted(w) for w in text.split()] and " is the " in said("misspelt", text)
    assert said("padded", text).split()[::2] == ["What", "color", "is", "the", "large", "cube"]


@pytest.mark.parametrize(
    ("question", "kept"),
    [("What?", {1}), ("What color?", {1}), ("Is it red?", {1, 2}), ("Is the cube red?", {2, 3}), ("Is the big cube red?", {2, 3, 4})],
)
def test_a_question_breaks_off_behind_its_first_half_and_before_its_last_word(question, kept):
    words = question.split(" ")
    made = {said("cut", question, seed) for seed in range(40)}
    assert made == {" ".join(words[:keep]) + " ..." for keep in kept}


def test_a_third_of_the_words_is_gapped_and_one_at_least():
    assert said("gapped", "Where?") == "...?" and said("gapped", "Is it blue there?") == "Is it blue ...?"
    assert said("gapped", "Is a cylinder of metal big?") == "Is a ... of ... big?"
    assert {said("gapped", "red one", seed) for seed in range(20)} == {"... one", "red ..."}, "of equal length, either"


@pytest.mark.parametrize(
    ("word", "spellings"),
    [("cube", {"cbue", "cueb"}), ("thing", {"tihng", "thnig", "thign"}), ("noon", {"nono"}), ("aaaa", {"aaaa"}), ("red", {"red"})],
)
def test_two_letters_behind_the_first_are_exchanged_in_words_of_four(word, spellings):
    assert {said("misspelt", f"Is {word}?", seed) for seed in range(40)} == {f"Is {one}?" for one in spellings}


def test_tiles_of_one_pixel_are_the_picture():
    pixels = np.random.default_rng(0).integers(0, 256, (TILES, TILES, 3), dtype=np.uint8)
    assert np.array_equal(spoilt("tiled", pixels), pixels)
