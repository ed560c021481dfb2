"""Keys of parts: those of signals hold the answer that they are about, and nothing is found for an answer that is not stored."""

from contextlib import chdir

import pytest

from qualm.runners.contracts.models import Part, Request
from qualm.runners.data.answers import Store, subject_digest
from qualm.runners.inference.keys import UNKNOWN, computed_keys, stored_keys
from tests.support.projects.asking import asker_of, sample, write_samples

RED, BLUE = Part("red", [4, 5]), Part("blue", [6])


@pytest.fixture
def asker(tmp_path):
    folder = write_samples(tmp_path / "d", [sample(name, None, f"What is {name}?") for name in "abc"], {})
    with chdir(tmp_path):
        yield asker_of({"d": folder}, needs=["draws", "p_true", "p_yes", "p_true_sampling"], draws=2)


@pytest.fixture
def places(asker):
    return [cell.place for cell in asker.survey()[0]]


@pytest.fixture
def store(tmp_path, asker):
    return Store(tmp_path / "store", "m", "e")


def put(asker, store, place, **parts):
    named = {name.replace("_", " "): part for name, part in parts.items()}
    store.put([asker.key(place, name) for name in named], list(named), list(named.values()))


def test_answers_and_draws_have_their_own_keys_stored_or_not(asker, store, places):
    wanted = [(places[1], "answer"), (places[0], "draw 2"), (places[0], "answer")]
    assert stored_keys(asker, store, wanted) == [asker.key(place, part) for place, part in wanted]
    assert stored_keys(asker, store, []) == []


def test_a_signals_key_holds_the_stored_answer(asker, store, places):
    a, b, c = places
    put(asker, store, c, answer=BLUE)
    put(asker, store, a, answer=RED)
    wanted = [(a, "p_true"), (b, "p_true"), (c, "p_yes"), (a, "answer"), (a, "p_yes")]
    assert stored_keys(asker, store, wanted) == [
        asker.key(a, "p_true", subject_digest(RED)), UNKNOWN, asker.key(c, "p_yes", subject_digest(BLUE)), asker.key(a, "answer"),
        asker.key(a, "p_yes", subject_digest(RED)),
    ]  # fmt: skip


def test_one_that_shows_draws_waits_for_all_of_them(asker, store, places):
    a, b, c = places
    put(asker, store, a, answer=RED, draw_1=Part("green"), draw_2=Part(None))
    put(asker, store, b, answer=RED, draw_2=Part("green"))
    put(asker, store, c, draw_1=Part("x"), draw_2=Part("y"))
    wanted = [(place, part) for place in places for part in ("p_true_sampling", "p_true")]
    shown = asker.key(a, "p_true_sampling", subject_digest(RED, ["green", ""]))
    assert stored_keys(asker, store, wanted) == [
        shown, asker.key(a, "p_true", subject_digest(RED)), UNKNOWN, asker.key(b, "p_true", subject_digest(RED)), UNKNOWN, UNKNOWN,
    ]  # fmt: skip


def test_unknown_is_no_key_that_could_be():
    assert UNKNOWN == b"\0" * 32


def request(greedy=None, drawn=None):
    return Request("?", None, greedy=greedy, drawn=drawn or {})


def test_what_was_just_made_is_about_the_answer_made_with_it(asker, places):
    place = places[0]
    made = {"p_true": Part(numbers=[0.5]), "answer": RED, "draw 1": Part("green")}
    keys = computed_keys(asker, request(BLUE), place, made)
    assert keys == {
        "p_true": asker.key(place, "p_true", subject_digest(RED)), "answer": asker.key(place, "answer"),
        "draw 1": asker.key(place, "draw 1"),
    }  # fmt: skip
    assert computed_keys(asker, request(), place, {}) == {}


def test_or_about_the_answer_that_was_known(asker, places):
    assert computed_keys(asker, request(BLUE), places[0], {"p_yes": Part()}) == {
        "p_yes": asker.key(places[0], "p_yes", subject_digest(BLUE))
    }
    assert computed_keys(asker, request(), places[0], {"p_yes": Part()}) == {"p_yes": asker.key(places[0], "p_yes", subject_digest(Part()))}


def test_draws_that_are_shown_are_in_the_order_of_their_numbers_known_or_made(asker, places):
    made = {"p_true_sampling": Part(), "p_true": Part(), "draw 2": Part("second"), "draw 10": Part(None)}
    keys = computed_keys(asker, request(RED, {3: "third", 1: "first", 2: "old"}), places[0], made)
    texts = ["first", "second", "third", ""]
    assert keys["p_true_sampling"] == asker.key(places[0], "p_true_sampling", subject_digest(RED, texts))
    assert keys["p_true"] == asker.key(places[0], "p_true", subject_digest(RED))
