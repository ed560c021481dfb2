"""Typos: what is replaced by what, how often, and how a question ends."""

import pytest

from qualm.runners.plugins.perturbations.typos import NEIGHBOURS, typos
from tests.support.checks.perturbation_checks import rng

QUESTION = "What color is the large metal cube?"
ROWS = ["qwertyuiop", " asdfghjkl", " zxcvbnm"]


def test_neighbours_touch_on_the_keyboard():
    assert {key: "".join(sorted(NEIGHBOURS[key])) for key in "gqpamz"} == {
        "g": "bfhtvy", "q": "aw", "p": "lo", "a": "qswz", "m": "jkn", "z": "asx",
    }  # fmt: skip
    assert all(a in NEIGHBOURS[b] for a, near in NEIGHBOURS.items() for b in near)
    assert NEIGHBOURS["G"] == NEIGHBOURS["g"].upper() and len(NEIGHBOURS) == 52


def test_only_letters_change_and_only_to_neighbours():
    (made,) = typos(["Do 3 RED cubes (really) exist, café?"], [rng()], p=1.0)
    for before, after in zip("Do 3 RED cubes (really) exist, café?", made, strict=True):
        assert after in NEIGHBOURS[before] if before in NEIGHBOURS else after == before


def test_a_question_without_letters_stays():
    assert typos(["123."], [rng()], p=1.0) == ["123."]


def test_each_letter_with_probability_p_and_every_neighbour_alike():
    (made,) = typos(["g" * 60_000], [rng()], p=0.15)
    changed = [c for c in made[:-1] if c != "g"]
    assert len(changed) / 60_000 == pytest.approx(0.15, abs=0.005)
    assert {c: changed.count(c) / len(changed) for c in "bfhtvy"} == pytest.approx(dict.fromkeys("bfhtvy", 1 / 6), abs=0.02)
