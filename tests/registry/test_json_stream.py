import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import registry.json_stream as json_stream
from registry.json_stream import JsonStreamError, members

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=8), st.integers(1, 40), st.sampled_from([None, 1]))
def test_it_reads_what_json_reads_at_any_chunk(tmp_path_factory, value, chunk, indent):
    path = tmp_path_factory.mktemp("json") / "a.json"
    path.write_text(json.dumps(value, indent=indent), encoding="utf-8")
    json_stream.CHUNK = chunk
    try:
        assert list(members(path)) == list(value.items())
    finally:
        json_stream.CHUNK = 1 << 20


def test_long_strings_over_the_edge_of_a_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK", 100)
    value = {str(k): {"text": "x" * (37 * k)} for k in range(40)}
    (tmp_path / "a.json").write_text(json.dumps(value))
    assert dict(members(tmp_path / "a.json")) == value


def test_a_file_that_is_cut_off_or_is_something_else_is_refused(tmp_path):
    path = tmp_path / "a.json"
    whole = json.dumps({str(k): {"objects": [1, 2.5, "x" * 50]} for k in range(20)})
    for cut in random.Random(0).sample(range(1, len(whole)), 60):
        path.write_text(whole[:cut])
        with pytest.raises(JsonStreamError, match="expected a whole JSON object"):
            list(members(path))
    wrong = {"[1]": "begins with", '{"a" 1}': "expected a key", "{1: 2}   ": "expected a key", '{"a": 1 "b": 2}': "expected ','"}
    for text, said in wrong.items():
        path.write_text(text)
        with pytest.raises(JsonStreamError, match=said):
            list(members(path))
    path.write_text('{"a": 1, "b": nonsense' + " " * 200 + "}")
    with pytest.raises(JsonStreamError, match=r"expected a whole JSON object: Expecting value: .*nonsense"):
        list(members(path))


@settings(deadline=None)
@given(st.lists(VALUES, max_size=6), st.integers(1, 40))
def test_a_list_is_spread_over_its_items(tmp_path_factory, items, chunk):
    path = tmp_path_factory.mktemp("json") / "a.json"
    path.write_text(json.dumps({"a": items, "b": items, "c": 1}), encoding="utf-8")
    json_stream.CHUNK = chunk
    try:
        assert list(members(path, {"b", "c"})) == [("a", items), *(("b", item) for item in items), ("c", 1)]
    finally:
        json_stream.CHUNK = 1 << 20
