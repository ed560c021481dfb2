import json
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.registry.formats.faults import Fault
from qualm.registry.recordings import tables
from qualm.registry.recordings.record import RecordingError
from qualm.registry.recordings.tables import Formula, columns, excel_escape, excel_unescape, rows


def table(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return path


def kept(path):
    return [item for item in rows(path) if not isinstance(item, Fault)]


def test_rows_of_text_by_the_names_of_their_columns(tmp_path):
    path = table(tmp_path, "t.tsv", 'a\tb\n1\t"x\ty"\n\n\tz\n')
    assert list(rows(path)) == [("t.tsv:2", {"a": "1", "b": "x\ty"}), ("t.tsv:4", {"a": None, "b": "z"})] and columns(path) == ["a", "b"]


def test_rows_with_other_numbers_of_cells_are_faults(tmp_path):
    found = list(rows(table(tmp_path, "t.tsv", 'a\tb\n1\n1\t2\t3\n1\t2\t\n1\t"x\n3\t4"\n')))
    assert [isinstance(item, Fault) for item in found] == [True, True, False, True] and found[2][1] == {"a": "1", "b": "2"}
    (fault,) = rows(table(tmp_path, "u.tsv", "a\tb\n1\t2\t\t3\t\n"))
    assert isinstance(fault, Fault) and (fault.reason, fault.what) == ("more cells than columns", "5 of 2")


def test_cells_of_a_table_that_we_exported_lose_the_quote_that_we_put_there(tmp_path):
    assert kept(table(tmp_path, "t.tsv", "sample_id\tb\ns\t'=1\n"))[0][1]["b"] == "=1"
    assert kept(table(tmp_path, "u.tsv", "id\tb\ns\t'=1\n"))[0][1]["b"] == "'=1"


def test_a_table_that_cannot_be_read(tmp_path):
    with pytest.raises(RecordingError, match="two columns of one name: a"):
        list(rows(table(tmp_path, "t.tsv", "a\ta\tb\n1\t2\t3\n")))
    with pytest.raises(RecordingError, match="not a table of tab-separated text"):
        list(rows(table(tmp_path, "u.tsv", 'a\tb\n"x" y\t1\n')))
    assert columns(tmp_path / "gone.tsv") == []


@pytest.mark.parametrize(
    "content, expected",
    [
        ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 2}]),
        ({"columns": ["a", "b"], "data": [[1, 2], [3]]}, [{"a": 1, "b": 2}, {"a": 3, "b": None}]),
        ({"a": [1, 2], "prediction": ["x", ""]}, [{"a": 1, "prediction": "x"}, {"a": 2, "prediction": None}]),
    ],
)
def test_json_in_each_of_its_shapes(tmp_path, content, expected):
    assert [row for _, row in rows(table(tmp_path, "t.json", json.dumps(content)))] == expected


def test_json_that_is_no_table(tmp_path, monkeypatch):
    for content in ({"a": [1], "b": [1, 2]}, {"a": 1}, 3):
        with pytest.raises(RecordingError, match="expected a list of rows, or columns of one length"):
            list(rows(table(tmp_path, "t.json", json.dumps(content))))
    with pytest.raises(RecordingError, match="not JSON"):
        list(rows(table(tmp_path, "t.json", '[{"a": 1, "a": 2}]')))
    (fault,) = rows(table(tmp_path, "t.json", "[[1]]"))
    assert isinstance(fault, Fault)
    monkeypatch.setattr(tables, "MAX_JSON", 3)
    with pytest.raises(RecordingError, match="larger than 3 bytes"):
        list(rows(table(tmp_path, "t.json", "[   ]")))


def test_columns_of_json_are_told_without_reading_it_whole(tmp_path):
    assert columns(table(tmp_path, "t.json", '[{"a": 1, "b": 2}, broken')) == ["a", "b"]
    assert columns(table(tmp_path, "t.json", '{"prediction": ["x"], "a": [1]}')) == ["prediction", "a"]
    long = "x" * 100_000
    assert columns(table(tmp_path, "t.json", json.dumps([{"a": long, "prediction": "y"}, 1]))) == ["a", "prediction"]
    assert columns(table(tmp_path, "t.json", json.dumps({"a": [long], "prediction": ["y"]}))) == ["a", "prediction"]
    assert columns(table(tmp_path, "t.json", '\ufeff[{"a": 1}]')) == ["a"] and columns(table(tmp_path, "t.json", "[]")) == []
    assert columns(table(tmp_path, "t.json", '{"other": [1]}')) == [] == columns(table(tmp_path, "u.json", "[1]"))


def test_excel_tables_and_their_formulas(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "b", None], ["x_x000D_", 2], [None, None], ["=1+1", "y"]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    found = list(rows(tmp_path / "t.xlsx"))
    assert found == [("t.xlsx:2", {"a": "x\r", "b": 2}), ("t.xlsx:4", {"a": "=1+1", "b": "y"})]
    assert isinstance(found[1][1]["a"], Formula) and not isinstance(found[0][1]["a"], Formula)
    (tmp_path / "u.xlsx").write_bytes(b"no zip")
    with pytest.raises(RecordingError, match="not an Excel table"):
        list(rows(tmp_path / "u.xlsx"))


def test_an_excel_table_may_unpack_to_so_many_times_its_size(tmp_path, monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a"], [1]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    with zipfile.ZipFile(tmp_path / "t.xlsx") as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    for free, ratio, most in ((unpacked, 0, 2**30), (0, 50, 2**30), (0, 50, unpacked)):
        monkeypatch.setattr(tables, "FREE", free)
        monkeypatch.setattr(tables, "RATIO", ratio)
        monkeypatch.setattr(tables, "MAX_UNPACKED", most)
        assert list(rows(tmp_path / "t.xlsx")) == [("t.xlsx:2", {"a": 1})]
    for free, ratio, most in ((unpacked - 1, 0, 2**30), (0, 50, unpacked - 1)):
        monkeypatch.setattr(tables, "FREE", free)
        monkeypatch.setattr(tables, "RATIO", ratio)
        monkeypatch.setattr(tables, "MAX_UNPACKED", most)
        with pytest.raises(RecordingError, match=f"would unpack to {unpacked:,} bytes; above {unpacked - 1:,} it is not opened"):
            list(rows(tmp_path / "t.xlsx"))


@given(st.text(st.characters(exclude_categories=[]), max_size=20))
def test_texts_survive_excel(text):
    kept_text = excel_escape(text)
    assert excel_unescape(kept_text) == text
    assert not any(ord(c) < 9 or 0xD800 <= ord(c) < 0xE000 for c in kept_text)


def test_a_cell_that_swallowed_other_rows_is_told_by_their_tabs(tmp_path):
    """One quotation mark too many takes in whole rows, each of which has all its tabs; a cell of two lines with fewer is a cell."""
    whole, swallowed = rows(table(tmp_path, "t.tsv", 'a\tb\tc\n1\t"x\n2\ty"\tz\n1\t"x\n2\ty\tz"\tw\n'))
    assert whole == ("t.tsv:3", {"a": "1", "b": "x\n2\ty", "c": "z"})
    assert isinstance(swallowed, Fault) and swallowed.reason == "a cell that holds other rows, by a quotation mark too many"
    (alone,) = rows(table(tmp_path, "u.tsv", 'a\n"x\ny"\n'))
    assert alone == ("u.tsv:3", {"a": "x\ny"})


def test_columns_without_a_name_and_rows_that_are_none_are_left_out(tmp_path):
    assert kept(table(tmp_path, "t.tsv", "a\t\tc\n1\t2\t3\n")) == [("t.tsv:2", {"a": "1", "c": "3"})]
    text = json.dumps({"columns": ["a"], "data": [[1], 2, [3, None], [4, 5]]})
    found = list(rows(table(tmp_path, "t.json", text)))
    assert found[:2] == [("t.json[0]", {"a": 1}), ("t.json[1]", {"a": 3})] and isinstance(found[2], Fault)
    assert found[2].reason == "more cells than columns" and found[2].what == "2 of 1"
