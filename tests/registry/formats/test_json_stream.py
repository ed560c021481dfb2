import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import qualm.registry.formats.json_stream as json_stream
from qualm.registry.formats.json_stream import JsonStreamError, count, members, values

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=8), st.integers(1, 40), st.sampled_from([None, 1]))
def test_it_reads_what_json_reads_at_any_chunk(tmp_path_factory, value, chunk, indent):
    path = tmp_path_factory.mktemp("json") / "a.json"
    path.write_text(json.dumps(value, indent=indent), encoding="utf-8")
    json_stream.CHUNK = chunk
    try:
        assert list(members(path)) == list(value.items())
    finally:
        json_stream.CHUNK = 1 << 20


def test_json_without_a_space_and_what_follows_its_last_line(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text('{"a":1,"b":[2,{"c":3}],"d":{}}')
    assert list(members(path)) == [("a", 1), ("b", [2, {"c": 3}]), ("d", {})]
    assert list(members(path, {"b"})) == [("a", 1), ("b", 2), ("b", {"c": 3}), ("d", {})]
    path.write_text("[1]\n\n\n  \nx")
    for chunk in (1, 2, 3, 4, 100):
        monkeypatch.setattr(json_stream, "CHUNK", chunk)
        with pytest.raises(JsonStreamError, match="line 5: expected the end of the file behind the JSON list, got 'x'"):
            list(values(path))


def test_long_strings_over_the_edge_of_a_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK", 100)
    value = {str(k): {"text": "x" * (37 * k)} for k in range(40)}
    (tmp_path / "a.json").write_text(json.dumps(value))
    assert dict(members(tmp_path / "a.json")) == value


def test_lines_of_any_length_are_counted(tmp_path):
    """Records with an image in base64, in a file called .json; and one object of two long lines."""
    path = tmp_path / "a.json"
    for record in ({"image": "x" * 2**21}, {"image": "}" * 2**21}):
        path.write_text(f"\n{json.dumps(record)}\r\n \n{json.dumps(record)}\n")
        assert count(path) == len(list(values(path))) == 2
    path.write_text('{"a": {"image": "' + "x" * 2**21 + '"},\n"b": {}}')
    assert count(path) == 2


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


@given(st.lists(VALUES, max_size=6), st.integers(1, 40))
def test_a_list_is_spread_over_its_items(tmp_path_factory, items, chunk):
    path = tmp_path_factory.mktemp("json") / "a.json"
    path.write_text(json.dumps({"a": items, "b": items, "c": 1}), encoding="utf-8")
    json_stream.CHUNK = chunk
    try:
        assert list(members(path, {"b", "c"})) == [("a", items), *(("b", item) for item in items), ("c", 1)]
    finally:
        json_stream.CHUNK = 1 << 20


@given(st.lists(VALUES, min_size=1, max_size=6), st.integers(1, 40), st.sampled_from([None, 1]))
def test_records_of_every_shape(tmp_path_factory, items, chunk, indent):
    path = tmp_path_factory.mktemp("json") / "a.json"
    json_stream.CHUNK = chunk
    try:
        path.write_text(json.dumps(items, indent=indent), encoding="utf-8")
        assert [value for _, value in values(path)] == items
        path.write_text(json.dumps({"info": [{}, []], "q": items, "z": {"a": 1}}, indent=indent), encoding="utf-8-sig")
        assert [value for _, value in values(path, "q")] == items
        path.write_text(json.dumps({str(i): item for i, item in enumerate(items)}, indent=indent), encoding="utf-8")
        assert [value for _, value in values(path, "*")] == [(str(i), item) for i, item in enumerate(items)]
        path.write_text("\n\n".join(json.dumps({"a": item}, ensure_ascii=False) for item in items), encoding="utf-8")
        assert list(values(path)) == [(2 * i + 1, {"a": item}) for i, item in enumerate(items)]
    finally:
        json_stream.CHUNK = 1 << 20


def test_every_record_knows_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK", 7)
    path = tmp_path / "a.json"
    path.write_text('[\r\n {"a": 1},\r\n\r\n {"a":\r\n 2}, 3\r\n]\r\n', newline="")
    assert list(values(path)) == [(2, {"a": 1}), (4, {"a": 2}), (5, 3)]


@pytest.mark.parametrize(
    ("data", "under", "said"),
    [
        (b"", None, "line 1: expected a whole JSON list: is empty"),
        (b"<!DOCTYPE html><html>", None, "line 1: .*it is a web page: the download met a login or error page"),
        (b"  <html>", "q", "line 1: expected a JSON object, it begins with '<html>'; it is a web page"),
        (b'[\n{"a": 1},\n{"a": "cut', None, "line 3: expected a whole JSON list: Unterminated string"),
        (b'[\n{"a": 1},\n{"a": 1}', None, "line 3: expected a whole JSON list: the file stops"),
        (b'[{"a": 1}]\nx', None, "line 2: expected the end of the file behind the JSON list, got 'x'"),
        (b'[\n1,\n"\xe9"]', None, r"line 3: not UTF-8: byte 0xe9 in .*iconv -f LATIN1"),
        ("[1]".encode("utf-16"), None, "not UTF-8 but UTF-16"),
        (b'{"a": 1}\n{"a": ', None, "line 2: expected one JSON value"),
        (b'{"a": 1}\n{"a": "\xe9"}', None, "line 2: not UTF-8: byte 0xe9"),
        (b'{"questions": [], "info": 1}', "annotations", "expected a list under 'annotations', found the keys 'questions', 'info'"),
        (b'{"annotations": {}}', "annotations", "expected a list under 'annotations', it begins with '{}}'"),
        (b"[" + b"[" * 100_000, None, "nested too deeply"),
        (b'[1,\n{"a": ' + b"9" * 5000 + b"}]", None, "line 2: Exceeds the limit .* for integer string conversion"),
        (b'{"a": ' + b"9" * 5000 + b"}", None, "line 1: expected one JSON value: Exceeds the limit"),
        (b'[1,\n{"a": "x \\uD83D y"}]', None, "line 2: half of a surrogate pair, which no text can hold: .*x .* y"),
        (b'{"a": "\\ud800"}', None, "line 1: half of a surrogate pair"),
        (b'{"\\ud800": [1]}', "*", "line 1: half of a surrogate pair"),
    ],
)
def test_what_is_wrong_and_where(tmp_path, data, under, said):
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(JsonStreamError, match=f"a.json: .*{said}"):
        list(values(tmp_path / "a.json", under))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[1, 2", "line 1: expected a whole JSON list: the file stops in the middle: '2'"),
        (
            b'[1, "' + b"abcdefghij" * 9,
            "line 1: expected a whole JSON list: Unterminated string starting at: '\"abcdefghijabcdefghijabcdefghi'",
        ),
        (b"[1, nonsense, " + b"abcdefghij" * 9, "line 1: expected a whole JSON list: Expecting value: 'nonsense, abcdefghijabcdefghij'"),
        (b'["012345678901234567\xe9abcdefghijk"]', "line 1: not UTF-8: byte 0xe9 in b'8901234567\\xe9abcdefghi'; "),
        (b'[\n"' + b"a" * 30 + b'",\n\n"\xe9"]', "line 4: not UTF-8: byte 0xe9 in b'\"\\xe9\"]'; "),
        (b'[\n"' + b"a" * 30 + b'"\n"b"]', "line 3: expected ',' or ']', got '\"b\"]'"),
        (
            b'["0123456789012345678901234 \\ud800 0123456789012345678901234"]',
            "line 1: half of a surrogate pair, which no text can hold: '6789012345678901234 \\ud800 012345678901234567'",
        ),
    ],
)
def test_messages_show_what_stands_around(tmp_path, data, said):
    """Thirty characters to each side, ten of bytes."""
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(JsonStreamError) as caught:
        list(values(tmp_path / "a.json"))
    assert str(caught.value).removeprefix(f"{tmp_path}/a.json: ").startswith(said)


def test_values_of_as_many_parts_as_may_be(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "MAX_PARTS", 4)
    path = tmp_path / "a.json"
    for good, n in (("[[1,1,1,1]]", 1), ('{"a":[1,1,1]}\n{"b":[1,1,1]}\n', 2)):
        path.write_text(good)
        assert len(list(values(path))) == n
    for bad, line in (("[\n[1,1,1,1,1]]", 2), ('{"a":[1,1,1]}\n{"b":[1,1,1,1]}\n', 2)):
        path.write_text(bad)
        with pytest.raises(JsonStreamError, match=f"line {line}: .*one value of 5 parts; at most 4 are read"):
            list(values(path))


def test_a_key_that_comes_again_is_refused_where_it_matters(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"q": {"a": 1, "b": 2, "b": 3, "a": 4}}')
    assert list(members(path)) == [("q", {"a": 4, "b": 3})]
    with pytest.raises(JsonStreamError, match="line 1: the key 'a' occurs twice"):
        list(members(path, unique_keys=True))


@pytest.mark.parametrize("length", [100, 101])
def test_lines_as_long_as_may_be(tmp_path, monkeypatch, length):
    monkeypatch.setattr(json_stream, "MAX_LENGTH", 100)
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n' + '{"a": "' + "x" * (length - 10) + '"}\n')
    if length == 100:
        assert [line for line, _ in values(path)] == [1, 2]
    else:
        with pytest.raises(JsonStreamError, match="line 2: more than 100 bytes"):
            list(values(path))


def test_broken_lines_may_be_left_out_and_broken_lists_may_not(tmp_path):
    path, told = tmp_path / "a.json", []
    path.write_bytes(b'{"a": 1}\n{"a": \n{"a": "\xff"}\n{"a": 3}\n')
    assert list(values(path, bad=told.append)) == [(1, {"a": 1}), (4, {"a": 3})]
    assert ["line 2" in str(told[0]), "line 3" in str(told[1])] == [True, True]
    path.write_text('[{"a": 1}, {"a": }]')
    with pytest.raises(JsonStreamError):
        list(values(path, bad=told.append))


def test_what_is_broken_at_the_beginning_is_not_read_to_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK", 1000)
    path = tmp_path / "a.json"
    path.write_text('[{"a": nonsense' + " " * 100_000 + "}]")
    read = []
    monkeypatch.setattr(json_stream._Reader, "_read", lambda self, size: read.append(size) or self._handle.read(size))
    with pytest.raises(JsonStreamError, match="line 1: expected a whole JSON list: Expecting value"):
        list(values(path))
    assert sum(read) <= 2000


def test_values_that_no_memory_holds_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK", 100)
    monkeypatch.setattr(json_stream, "MAX_LENGTH", 1000)
    path = tmp_path / "a.json"
    path.write_text('["' + "x" * 5000 + '"]')
    with pytest.raises(JsonStreamError, match="line 1: one value of more than 1,000 characters"):
        list(values(path))
    path.write_text('{"a": 1}\n{"a": "' + "x" * 5000 + '"}\n')
    with pytest.raises(JsonStreamError, match="line 2: more than 1,000 bytes"):
        list(values(path))
    for length, times in ((100, 100), (900, 10)):
        path.write_text(json.dumps(["x" * length] * times))
        assert len(list(values(path))) == times


def test_half_of_a_surrogate_pair_spoils_its_own_record_alone(tmp_path, monkeypatch):
    good, bad = '{"a": "\\uD83D\\uDE00 \\\\ud800"}', '{"a": "\\uDE00"}'
    monkeypatch.setattr(json_stream, "CHUNK", 9)
    path, texts = tmp_path / "a.json", {None: f"[{good}, {bad},\n{good}]", "q": f'{{"q": [{good}, {bad},\n{good}]}}'}
    for under, text in (*texts.items(), (None, f"{good}\n{bad}\n{good}")):
        path.write_text(text)
        told = []
        assert [value for _, value in values(path, under, told.append)] == [{"a": "😀 \\ud800"}] * 2
        assert len(told) == 1 and "half of a surrogate pair" in str(told[0])
    path.write_text(f'{{"x": {bad}, "y": {good}}}')
    told = []
    assert [key for _, (key, _) in values(path, "*", told.append)] == [key for key, _ in members(path, (), told.append)] == ["y"]
    assert len(told) == 2 and [key for key, _ in members(path)] == ["x", "y"]  # for readers that see to it themselves
    path.write_text(texts[None])
    assert count(path) == 3  # a file is taken in as it is


def test_lines_are_counted_over_the_pieces_in_which_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK", 8)
    (tmp_path / "a.json").write_bytes(b'[\n"' + b"a" * 30 + b'",\n\n"\xe9"]')
    with pytest.raises(JsonStreamError, match="line 4: not UTF-8: byte 0xe9"):
        list(values(tmp_path / "a.json"))
    (tmp_path / "a.json").write_bytes(b'[\n"' + b"a" * 30 + b'"\n"b"]')
    with pytest.raises(JsonStreamError, match="line 3: expected ',' or ']', got"):
        list(values(tmp_path / "a.json"))
