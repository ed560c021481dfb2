"""Dropped words: how many, in which order the others stay, and how a question ends."""

import pytest

from qualm.runners.plugins.perturbations.dropwords import dropwords
from tests.support.checks.perturbation_checks import rng


def test_what_stays_is_a_part_of_what_was_in_its_order():
    words = [f"w{i}" for i in range(20_000)]
    (made,) = dropwords([" ".join(words) + "?"], [rng()])
    stayed = made.rstrip("?").split(" ")
    places = [int(w[1:]) for w in stayed]
    assert places == sorted(set(places)) and len(places) / 20_000 == pytest.approx(0.85, abs=0.01)


def test_the_mark_stays_when_the_last_word_goes():
    made = {dropwords(["What is red?"], [rng(str(i))], p=0.5)[0] for i in range(60)}
    assert made == {"What is red?", "What is?", "What red?", "is red?", "What?", "is?", "red?"}


def test_one_word_is_left_each_as_likely():
    assert dropwords(["word", ""], [rng(), rng()], p=1.0) == ["word", ""]
    made = [dropwords(["one two three"], [rng(str(i))], p=1.0)[0] for i in range(300)]
    assert {w: made.count(w) for w in ("one?", "two?", "three?")} == pytest.approx({"one?": 100, "two?": 100, "three?": 100}, abs=30)
