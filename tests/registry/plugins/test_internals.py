"""Names of what is inside a model: one text for one layer, and errors that say what was expected."""

import re

import numpy as np
import pytest

from qualm.registry.plugins.internals import LOOKS, PLACES, given_by, is_internal, layer_index, layer_range, parse_internal


@pytest.mark.parametrize(
    ("word", "stored"), [("middle", "0.5"), (".50", "0.5"), ("last", "-1"), ("-1.0", "-1"), ("07", "7"), ("0", "0"), ("0.25", "0.25")]
)
def test_every_way_to_name_a_layer_has_one_text(word, stored):
    for place in PLACES:
        assert parse_internal(f"hidden_states/{word}/{place}").signal == f"hidden_states/{stored}/{place}"
    drawn = parse_internal(f"draw_hidden_states/{word}/answer_mean")
    assert drawn.drawn and drawn.signal == f"hidden_states/{stored}/answer_mean" and not drawn.of_prompt


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (
            "hidden_states/deep/answer_last",
            "expected a layer as `middle`, `last`, a whole number or a share above 0 and below 1, got",
        ),
        ("hidden_states/1.5/answer_last", "got '1.5'"),
        ("hidden_states/.0/answer_last", "a share above 0 and below 1, got '.0'"),
        ("hidden_states/0.1234567/answer_last", "got '0.1234567'"),
        ("hidden_states/12345/answer_last", "got '12345'"),
        ("draw_attention/all/previous", "expected hidden_states or token_ends of sampled answers"),
        ("draw_image_information/all/0.5", "expected hidden_states or token_ends of sampled answers"),
        ("other/all/previous", "of the greedy one"),
        ("image_information/all/1.01", "above 0 and at most 1, got '1.01'"),
        ("image_information/all/x", "above 0 and at most 1, got 'x'"),
        ("hidden_states/0.0/answer_last", None),
        (
            "hidden_states/middle/first",
            "expected one of prompt_last, image_last, image_mean, answer_last, answer_mean at its end, got 'first'",
        ),
        ("hidden_states/middle", "expected one of"),
        ("attention/all/next", "expected previous, image_share, image_entropy at its end, got 'next'"),
        ("attention/middle/previous", "expected layers as `all`, `middle_third` or FROM:TO, got 'middle'"),
        ("draw_gradient/all/-1", "expected hidden_states or token_ends of sampled answers"),
        ("gradient/all/0", "expected a token counted from the prompt's end, -1 (the last) to -999, got '0'"),
        ("gradient/all/last", "-1 (the last) to -999, got 'last'"),
        ("gradient/-1", "expected layers as"),
        ("attention/0.5:0.2/previous", "expected FROM before TO in layers FROM:TO, got '0.5:0.2'"),
        ("attention/middle:.5/previous", "expected FROM before TO in layers FROM:TO, got 'middle:.5'"),
        ("gradient/9:3/-1", "expected FROM before TO in layers FROM:TO, got '9:3'"),
        ("image_information/last:-2/0.5", "expected FROM before TO in layers FROM:TO, got 'last:-2'"),
        ("evidence/all/conflict", "expected evidence/conflict or evidence/ignorance"),
        ("evidence/doubt", "expected evidence/conflict or evidence/ignorance"),
        ("image_information/all/0", "expected a share of the image's tokens above 0 and at most 1, got '0'"),
        ("token_ends/all/x", "expected layers|token_ends"),
        ("draw_hidden_states/middle/prompt_last", "all answers to a question have one prompt; read hidden_states/middle/prompt_last"),
    ],
)
def test_what_there_is_not(column, words):
    assert is_internal(column) == (not column.startswith(("other", "draw_attention", "draw_image", "draw_gradient")))
    if words is None:
        assert parse_internal(column).layer == "0"
        return
    with pytest.raises(ValueError, match=re.escape(words) if "(" in words else words.replace("`", "`")) as caught:
        parse_internal(column)
    assert str(caught.value).startswith(column)


def test_layers_count_as_in_transformers():
    assert [layer_index(word, 32) for word in ("0.5", "-1", "-33", "0", "32", "0.99")] == [16, 32, 0, 0, 32, 32]
    assert [layer_index(word, 32) for word in ("33", "-34")] == [None, None]
    for layers in range(1, 60):
        assert layer_index("0.5", layers) == (layers + 1) // 2  # the middle of hidden_states, as the code of INSIDE takes it


def test_ranges_of_layers():
    assert (
        layer_range("all", 3) == [1, 2, 3] and layer_range("0.5:-1", 4) == [3, 4] and layer_range("3:9", 4) == layer_range("9:3", 4) == []
    )
    for layers in range(1, 60):  # as RAUQ counts them in LM-Polygraph, which counts from 0
        there = [n + 1 for n in range(layers // 3, int(np.ceil(layers / 3 * 2)) + 1) if n < layers]
        assert layer_range("middle_third", layers) == there
    assert layer_range("0.3125:0.78125", 32) == list(range(11, 26))  # VAUQ's code: 10 to 25, counted from 0, the last left out
    assert parse_internal("attention/.3125:last/previous").signal == "attention/0.3125:-1/previous"
    for layers in ("3:3", "-2:-2", "-1:9", "9:-9", "0.9:2", "2:0.1"):  # the last four may have layers, by the depth of the model
        assert parse_internal(f"attention/{layers}/previous").layer == layers
    for look in LOOKS:
        assert parse_internal(f"attention/all/{look}").column == f"attention/all/{look}"
    assert parse_internal("image_information/middle_third/.50").column == "image_information/middle_third/0.5"
    assert (
        parse_internal("gradient/.50:last/-3").signal == "gradient/0.5:-1/-3"
        and parse_internal("evidence/conflict").column == "evidence/conflict"
    )
    assert parse_internal("token_ends").exact, "float16 has no odd numbers above 2,048"
    assert parse_internal("draw_token_ends").signal == "token_ends" and parse_internal("token_ends").column == "token_ends"


def test_what_needs_a_picture():
    of_picture = ("attention/all/image_share", "image_information/all/1", "hidden_states/0/image_mean")
    assert all(parse_internal(column).of_picture for column in of_picture)
    assert not any(parse_internal(column).of_picture for column in ("attention/all/previous", "token_ends", "hidden_states/0/prompt_last"))


def test_what_a_model_must_give():
    assert given_by("draw_hidden_states/-1/answer_last") == given_by("hidden_states/0/prompt_last") == "hidden_states"
    assert given_by("attention/all/previous") == given_by("image_information/all/0.5") == "attention"
    assert given_by("gradient/all/-1") == "gradient" and given_by("evidence/conflict") == "evidence"
    assert given_by("draw_token_ends") == "token_ends"
    assert given_by("p_true") == "p_true" and not is_internal("p_true") and not is_internal("hidden_states")
