"""Shuffled phrases: where a question is split, which exchanges there are, and what has nothing to exchange."""

import pytest

from qualm.runners.plugins.perturbations.shuffle import _split, shuffle
from tests.support.checks.perturbation_checks import rng


@pytest.mark.parametrize(
    ("question", "phrases"),
    [
        ("What color is the cube?", ["What color is the cube"]),
        ("Is the cube, seen from here, red or blue?", ["Is the cube", "seen from here", "red", "blue"]),
        ("If it is 3.5 m tall, and not 5:30 yet, what is it?", ["it is 3.5 m tall", "not 5:30", "what is it"]),
        ("How many (red) things are there?", ["How many", "red", "things are there"]),
        ("", []),
        (" , and ?", []),
    ],
)
def test_phrases_lie_between_punctuation_and_conjunctions(question, phrases):
    pieces, places = _split(question, "clauses")
    assert [pieces[i] for i in places] == phrases and "".join(pieces) == question


@pytest.mark.parametrize(
    ("question", "phrases"),
    [
        ("What color is the large metal cube?", ["What color", "is the large metal cube"]),
        ("Is there a red sphere?", ["Is there", "a red sphere"]),
        ("Is the red cube left of the sphere?", ["Is the red cube left", "of the sphere"]),
        ("What number of things are there?", ["What number", "of things", "are there"]),
        ("Name it.", ["Name it"]),
    ],
)
def test_short_phrases_begin_with_little_words(question, phrases):
    pieces, places = _split(question, "phrases")
    assert [pieces[i] for i in places] == phrases and "".join(pieces) == question


def test_what_is_one_clause_is_cut_finer():
    questions = ["What color is the cube?", "Name it.", "Why?", "", "什么颜色?"]
    assert shuffle(questions, [rng()] * 5) == ["is the cube What color?", "it Name?", "Why?", "", "什么颜色?"]
    assert shuffle(questions, [rng()] * 5, unit="clauses") == questions


def test_every_question_about_a_scene_changes(tmp_path):
    """None did when questions were split as the paper's text says."""
    from qualm.registry.adapters import AdapterContext
    from qualm.registry.adapters.clevr_hallucination import clevr_hallucination
    from qualm.registry.sample import Sample

    made = clevr_hallucination(AdapterContext(tmp_path, 7, None, 1, lambda sample: True), per_type=10)
    questions = [one.question for one in made if isinstance(one, Sample)]
    assert len(questions) == 40
    for unit, changed in (("phrases", 40), ("clauses", 0)):
        shuffled = shuffle(questions, [rng(str(i)) for i in range(40)], k=1, unit=unit)
        assert sum(a != b for a, b in zip(questions, shuffled, strict=True)) == changed


def test_one_exchange_is_one_of_all_pairs():
    made = {shuffle(["a b, c and d?"], [rng(str(i))])[0] for i in range(60)}
    assert made == {"c, a b and d?", "d, c and a b?", "a b, d and c?"}


def test_two_exchanges_never_undo_each_other():
    question = "one, two, three?"
    made = {shuffle([question], [rng(str(i))], k=2)[0] for i in range(60)}
    assert made == {"two, three, one?", "three, one, two?"}
    assert shuffle(["red or blue?"], [rng()], k=100) == ["blue or red?"]  # there is only one


def test_equal_phrases_come_back_as_they_were():
    assert shuffle(["red, red?"], [rng()]) == ["red, red?"]


def test_words_are_had_by_any_question():
    (made,) = shuffle(["What color is the large metal cube?"], [rng()], unit="words")
    assert made != "What color is the large metal cube?" and made.endswith("?")
    assert sorted(made.rstrip("?").split()) == sorted(["What", "color", "is", "the", "large", "metal", "cube"])


def test_the_end_is_a_question_mark():
    assert shuffle(["See the cube, then say its color."], [rng()]) == ["then say its color, See the cube?"]
