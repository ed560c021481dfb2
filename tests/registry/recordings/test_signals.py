import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.registry.recordings.signals import COLUMNS, KEY, LISTS, NUMBERS, SPELLED, TEXTS, SignalError, pack, unpack

NUMBER = st.floats(width=64, allow_nan=False).filter(lambda x: abs(x) < 1e308 or math.isinf(x))
COLUMN = {
    **dict.fromkeys(LISTS, st.lists(NUMBER, max_size=3)),
    **dict.fromkeys(NUMBERS, NUMBER),
    **dict.fromkeys(TEXTS, st.text(max_size=5)),
    **dict.fromkeys(SPELLED, st.lists(st.lists(st.text(max_size=5), max_size=3), max_size=3)),
}


@given(st.fixed_dictionaries({}, optional=COLUMN))
def test_columns_come_back_bit_for_bit_through_json(row):
    packed = json.loads(json.dumps(pack(row), allow_nan=False))
    assert unpack(packed) == row


def test_the_columns_are_all_of_generations_but_their_key():
    from qualm.registry.sample import GENERATIONS

    assert set(COLUMNS) == set(GENERATIONS.names) - {"sample_id", "variant", "draw"}


def test_what_is_left_out_and_what_was_never_said():
    row = {"text": "a", "token_logprobs": [-1.0], "p_yes": None}
    assert pack(row, but=["text"]) == {"token_logprobs": [-1.0]}
    assert pack({"text": None}, but=["text"]) == {"no_text": True} and pack({"text": None}) == {}
    assert unpack({"no_text": True}) == {"text": None} and unpack({"no_text": None, "p_yes": None}) == {}


def test_nan_is_a_word():
    assert pack({"p_yes": math.nan}) == {"p_yes": "nan"} and math.isnan(unpack({"p_yes": "nan"})["p_yes"])


@pytest.mark.parametrize(
    "value",
    [
        [],
        None,
        {"more": 1},
        {"p_yes": 1e308},
        {"p_yes": -1e308},
        {"token_logprobs": [1.0, False]},
        {"p_yes": "x"},
        {"p_yes": True},
        {"token_logprobs": 1.0},
        {"text": 1},
        {"top_tokens": [["a"], "b"]},
        {"top_tokens": [["a", 1.0]]},
        {"top_tokens": "a"},
        {"p_yes": 1e309},
        {"no_text": 3},
    ],
)
def test_what_we_do_not_write(value):
    with pytest.raises(SignalError, match=KEY):
        unpack(value)
