import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qualm.compiler.spec.canonical_json import canonical

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
)


@settings(max_examples=25)
@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_equal_values_are_equal_bytes_whatever_their_order(value):
    text = canonical(value)
    assert json.loads(text) == value and canonical(dict(reversed(value.items()))) == text and text.endswith("\n")


def test_kinds_of_numbers_and_letters_stay():
    assert (
        canonical({"a": 15}) != canonical({"a": 15.0}) and canonical("é") == '"é"\n' and canonical({"b": 1, "a": [2]}).startswith('{\n "a"')
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_json_has_no_word_for(value):
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical({"a": value})
