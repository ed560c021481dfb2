import os
import re
import time

import pyarrow as pa
import pytest

from qualm.runners.data.segments import HEAD, MAGIC, Segments, leftovers, write_time

SCHEMA = pa.schema([("n", pa.int64())])


def rows(*numbers):
    return pa.table({"n": list(numbers)}, schema=SCHEMA)


def test_rows_come_back_and_names_are_in_the_order_of_writing(tmp_path):
    segments = Segments(tmp_path / "store", SCHEMA)
    assert segments.names() == []
    first, second = segments.write(rows(1, 2)), segments.write(rows(3))
    assert segments.names() == [first, second] and segments.read(first).equals(rows(1, 2))
    early = segments.write(rows(4), at=write_time(first)[:-1] + "0")
    assert segments.names()[0] in (early, first) and write_time(early) == write_time(first)[:-1] + "0"
    assert segments.read("none.segment") is None and segments.damaged == 0
    data = (tmp_path / "store" / first).read_bytes()
    assert data.startswith(MAGIC) and HEAD % 64 == 0 and not list(tmp_path.glob("store/.*"))


@pytest.mark.parametrize(
    "damage, fault",
    [
        (lambda data: data[:-1], "fails its checksum"),
        (lambda data: data[:HEAD] + bytes([data[HEAD] ^ 1]) + data[HEAD + 1 :], "fails its checksum"),
        (lambda data: data[:20], r"does not begin as a segment does \(20 bytes\)"),
        (lambda data: b"", r"does not begin as a segment does \(0 bytes\)"),
        (lambda data: b"X" + data[1:], "does not begin as a segment does"),
    ],
)
def test_a_damaged_segment_is_set_aside_and_said(tmp_path, capsys, damage, fault):
    segments = Segments(tmp_path, SCHEMA)
    name = segments.write(rows(1))
    path = tmp_path / name
    path.write_bytes(damage(path.read_bytes()))
    untouched = Segments(tmp_path, SCHEMA, touch=False)
    assert untouched.read(name) is None and untouched.damaged == 1 and path.exists() and not capsys.readouterr().err
    assert segments.read(name) is None and segments.damaged == 1 and segments.names() == []
    assert path.with_suffix(".damaged").exists()
    assert re.search(fault, capsys.readouterr().err)


def test_a_segment_of_other_columns_is_damaged(tmp_path, capsys):
    name = Segments(tmp_path, pa.schema([("m", pa.int64())])).write(pa.table({"m": [1]}))
    assert Segments(tmp_path, SCHEMA).read(name) is None
    assert "holds other columns than n" in capsys.readouterr().err


def test_rows_that_cannot_be_are_left_out_and_told_of_once(tmp_path, capsys):
    segments = Segments(tmp_path, SCHEMA, valid_rows=lambda table: table.slice(0, 1))
    name = segments.write(rows(1, 2, 3))
    assert [segments.read(name).to_pydict() for _ in range(2)] == [{"n": [1]}] * 2
    assert capsys.readouterr().err.count("2 answers hold impossible numbers") == 1


def test_a_retired_segment_is_not_listed_and_still_read(tmp_path):
    segments = Segments(tmp_path, SCHEMA)
    name = segments.write(rows(1))
    segments.retire(name)
    segments.retire(name)
    assert segments.names() == [] and segments.read(name).equals(rows(1))


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    segments = Segments(tmp_path, SCHEMA)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        segments.write(rows(1))
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_needs_any_more(tmp_path, monkeypatch):
    for name in ("a.damaged", "b.retired", ".c.partial", "d.segment", "about.json"):
        (tmp_path / name).write_bytes(b"")
    now = time.time()
    assert [p.name for p in leftovers(tmp_path, 60)] == ["a.damaged"]
    monkeypatch.setattr(time, "time", lambda: now + 3600)
    assert [p.name for p in leftovers(tmp_path, 60)] == ["a.damaged", "b.retired"]
    monkeypatch.setattr(time, "time", lambda: now + 25 * 3600)
    assert [p.name for p in leftovers(tmp_path, 60)] == [".c.partial", "a.damaged", "b.retired"]


def test_an_optional_column_is_written_where_it_holds_something_and_read_as_null_where_it_was_not(tmp_path):
    wide = pa.schema([*SCHEMA, ("states", pa.list_(pa.float16()))])
    old = Segments(tmp_path, SCHEMA)
    before = old.write(rows(1, 2))
    segments = Segments(tmp_path, wide, optional=("states",))
    assert segments.read(before).to_pylist() == [{"n": 1, "states": None}, {"n": 2, "states": None}]
    filled = pa.table({"n": [3, 4], "states": [[1.5], None]}, schema=wide)
    with_states, without = segments.write(filled), segments.write(filled.slice(1))
    assert segments.read(with_states).equals(filled) and segments.read(without).to_pylist() == [{"n": 4, "states": None}]
    assert old.read(without).equals(rows(4)) and not segments.damaged and not old.damaged
