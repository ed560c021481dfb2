from qualm.registry.formats.faults import Fault
from qualm.registry.recordings import jsonl
from qualm.registry.recordings.jsonl import HEAD, keys, rows


def test_objects_come_with_their_lines_and_the_rest_as_faults(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a": 1}\n\n  \n[1]\n{"a": \n{"b": 2, "b": 3}\n{"c": 3}')
    found = list(rows(path))
    assert [item for item in found if isinstance(item, tuple)] == [("log.jsonl:1", {"a": 1}), ("log.jsonl:7", {"c": 3})]
    assert [(f.where, f.reason if hasattr(f, "reason") else f.kind) for f in found if isinstance(f, Fault)] == [
        ("log.jsonl:4", "not an object"), ("log.jsonl:5", "not JSON"), ("log.jsonl:6", "not JSON"),
    ]  # fmt: skip


def test_what_stands_between_two_is_taken_off(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b'{"a": 1},\n{"b": 2}\n')
    assert [item[1] for item in rows(path, b",")] == [{"a": 1}, {"b": 2}] and keys(path, b",") == {"a", "b"}


def test_a_line_that_is_too_long_is_skipped_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl, "MAX_LINE", 20)
    path = tmp_path / "log"
    path.write_bytes(b'{"a": "' + b"x" * 100 + b'"}\n{"b": 1}\n{"c": "' + b"y" * 10 + b'"}\n')
    found = list(rows(path))
    assert isinstance(found[0], Fault) and found[1:] == [("log:2", {"b": 1}), ("log:3", {"c": "y" * 10})]


def test_names_are_those_of_the_first_lines(tmp_path):
    path = tmp_path / "log"
    path.write_text("broken\n" + '{"a": 1}\n' * (HEAD - 1) + '{"late": 1}\n')
    assert keys(path) == {"a"} and keys(tmp_path / "gone") == set()
