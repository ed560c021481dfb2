import csv
import time
from pathlib import Path

import numpy as np
import pytest

from qualm.registry.scenes.contrast import CATEGORIES, contrast, refusals
from qualm.registry.scenes.world import make_scene
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.plugins.judges.rules import normalise, rules


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Cat.", "cat"),
        ("ice-cream", "ice cream"),
        ("1,000", "1000"),
        ("1,00", "1 00"),
        ("U.S.A.", "usa"),
        ("3.5", "3.5"),
        ("two red cubes", "2 red cubes"),
        ("None", "0"),
        ("Don’t", "dont"),
        ("A", "a"),
        ("  ", ""),
        ("Ｒｅｄ", "red"),
    ],
)
def test_normalise(text, expected):
    assert normalise(text) == expected


def test_refusals():
    for text in (
        "I don't know",
        "I don’t know.",
        "i do not know what it is",
        "I'm not sure",
        "I am uncertain.",
        "Not sure.",
        "No idea",
        "It cannot be determined from the image.",
        "I can't tell.",
        "I cannot see it",
        "Cannot say",
        "It is impossible to tell what color it was",
        "There is not enough information.",
        "Unanswerable",
        "unknown",
        "It is unclear.",
        "Sorry, I'm not certain.",
        "Nothing",
        "Nothing.",
    ):
        assert is_refusal(text), text


def test_answers():
    for text in (
        "",
        "red",
        "No",
        "I know",
        "unknown soldier",
        "I am not sure, but I think blue",
        "Not certain, however it looks like a cube",
        "The man does not know the way",
        "An unclear photo of a cat",
        "He cannot swim",
        "sure",
    ):
        assert not is_refusal(text), text


def test_contained():
    (yes,) = rules(["?"], [["red cube"]], ["It is the red cube, I believe."], match="contained")
    (no,) = rules(["?"], [["red"]], ["bored"], match="contained")
    assert (yes.rating, no.rating) == (1, 0)
    assert rules(["?"], [["red"]], ["It is red"], match="exact")[0].rating == 0


def test_a_reference_of_nothing_matches_nothing_in_contained():
    assert rules(["?"], [["..."]], ["red"], match="contained")[0].rating == 0


@pytest.mark.slow
def test_a_model_that_repeats_itself_is_soon_read():
    """Time grows with the length and not with its square: 200,000 characters would take eighty seconds."""
    start = time.process_time()
    for words in ("in ", "only ", "by a single ", "there is no ", "not "):
        is_refusal(words * (200_000 // len(words)), "What color is the cube?")
    assert time.process_time() - start < 60


def test_a_question_of_a_single_long_word_is_soon_read():
    """Searching for "full or empty?" from every character of the word would take two minutes."""
    start = time.process_time()
    assert not is_refusal("red", "x" * 100_000)
    assert time.process_time() - start < 60


LABELLED = list(csv.DictReader((Path(__file__).parents[3] / "data" / "refusals.csv").open(encoding="utf-8")))


def test_the_labelled_set():
    assert len(LABELLED) >= 260
    assert len({(r["question"], r["prediction"]) for r in LABELLED}) == len(LABELLED)
    for split in ("dev", "held_out"):
        part = [r for r in LABELLED if r["split"] == split]
        assert len(part) >= 140
        assert {r["kind"] for r in part} - {"more"} == {r["kind"] for r in LABELLED} - {"more"}


def test_refusals_of_the_half_that_was_set_aside():
    assert told_right("held_out") >= 0.97


def test_refusals_that_were_written_after_the_rules():
    """Lower: what people of another day and mood would write. None of these was tuned against."""
    assert told_right("later") >= 0.9


def told_right(split):
    part = [r for r in LABELLED if r["split"] == split]
    return sum(is_refusal(r["prediction"], r["question"]) == (r["is_refusal"] == "1") for r in part) / len(part)


def test_the_paper_s_examples():
    """The seven by which CertainlyUncertain's prompt draws the line, in our words where they are sentences."""
    color = "What is the color of the car?"
    for question, said, declines in [
        ("What is the capital of France?", "I don't know", True),
        (color, "I don't see a car.", True),
        ("What is the person holding?", "Nothing", True),
        (color, "The color of the car cannot be told from the image. However, cars are commonly white or black", True),
        (color, "I am not sure, but I think blue", False),
        ("What is the person holding?", "an apple, but I am not confident", False),
        ("What is the man wearing?", "A hat that looks like a pineapple.", False),
    ]:
        assert is_refusal(said, question) == declines, said


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_refusal_of_the_scenes(category):
    for question in ("What color is the small red cube?", "What is the shape of the gray object?", "How heavy is the cube?"):
        for said in refusals(category, question):
            assert is_refusal(said, question), said
    if category != "extraneous":
        for index in range(40):
            pair = contrast(np.random.default_rng(index), make_scene(1, "easy", "test", index), category)
            for said in refusals(category, pair.unanswerable.text) if pair else ():
                assert is_refusal(said, pair.unanswerable.text), (pair.unanswerable.text, said)
            assert pair is None or not is_refusal(pair.answerable.answer, pair.answerable.text)


def test_a_denial_answers_where_the_question_asks_for_it():
    (asked, told) = rules(["What color is the car?", "Is there a car?"], [[], ["There is no car."]], ["There is no car."] * 2)
    assert (asked.rating, asked.pred_is_idk) == (1, True)
    assert (told.rating, told.pred_is_idk) == (1, False)


@pytest.mark.parametrize(
    ("reference", "reply", "rating"),
    [
        ("March 5, 2020", "March 05, 2020", 1.0),
        ("March 5, 2020", "The date is 05 March 2020.", 1.0),
        ("March 05, 2020", "2020-03-05", 1.0),
        ("March 5", "The date is March 05.", 1.0),
        ("March 15, 2020", "It was taken on 15.03.2020.", 1.0),
        ("15/03/2020", "03/15/2020", 1.0),
        ("March 15, 2020", "16/03/2020", 0.0),
        ("March 5, 2020", "05/03/2020", None),
        ("03/05/2020", "5 March 2020", None),
        ("03/05/2020", "The date is 03/05/2020.", 1.0),
        ("03/05/2020", "3.5.2020", 1.0),
        ("May 13, 2020", "2020/05/13", 1.0),
        ("March 5, 2020", "03/06/2020", 0.0),
        ("March 5, 2020", "The date is not 03/05/2020, it is June 7, 2021.", 0.0),
        ("June 1, 2020", "No, not 06/01/2020.", 0.0),
        ("March 15, 2020", "March 5, 2020", 0.0),
        ("2020-12-05", "2020-13-05", 0.0),
    ],
)
def test_a_day_may_have_a_leading_zero_and_a_month_is_one_of_twelve(reference, reply, rating):
    assert rules(["When?"], [[reference]], [reply], [[]])[0].rating == rating
