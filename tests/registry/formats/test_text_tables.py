import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.registry.formats import text_tables
from qualm.registry.formats.text_tables import TextTableError, escape_formula, rows, text_lines, unescape_formula


def read(tmp_path, content, name="t.csv"):
    (tmp_path / name).write_bytes(content)
    return list(rows(tmp_path / name))


def test_rows_come_with_the_line_that_they_begin_on(tmp_path):
    assert read(tmp_path, b'\xef\xbb\xbfa,b\n"x\ny",2\n\n3,4\r\n') == [(1, ["a", "b"]), (2, ["x\ny", "2"]), (5, ["3", "4"])]
    assert read(tmp_path, b"a\tb,c\n", "t.TSV") == [(1, ["a", "b,c"])] and read(tmp_path, b"") == []


@pytest.mark.parametrize(
    "content, message",
    [(b'a,b\n1,"2\n', "line 2: unexpected end of data"), (b'a\n"x"y\n', "line 2: "), (b"a\n\xff\n", "UTF-8")],
)
def test_what_is_no_table_of_text(tmp_path, content, message):
    with pytest.raises(TextTableError, match=message):
        read(tmp_path, content)


@pytest.mark.parametrize(
    "content, name, message",
    [
        (b"\xef\xbb\xbfid;image;question\r\n1;a.png;What?\r\n", "t.csv", "line 1: its columns are parted by semicolons; expected commas"),
        (b"id\timage\n1\ta.png\n", "t.csv", "line 1: its columns are parted by tabs; expected commas in a .csv file"),
        (b"id,image\n1,a.png\n", "t.tsv", "line 1: its columns are parted by commas; expected tabs in a .tsv file"),
    ],
)
def test_a_header_whose_columns_something_else_parts(tmp_path, content, name, message):
    with pytest.raises(TextTableError, match=message):
        read(tmp_path, content, name)


def test_one_column_is_a_table(tmp_path):
    assert read(tmp_path, b"question;\na;b\n") == [(1, ["question;"]), (2, ["a;b"])]


def test_what_is_no_file(tmp_path):
    with pytest.raises(TextTableError, match="expected a file, got something else"):
        list(rows(tmp_path))


def test_a_line_that_is_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(text_tables, "MAX_CELL", 4)
    assert list(text_lines(io.StringIO("abc\nabcd"))) == ["abc\n", "abcd"]
    with pytest.raises(csv.Error, match="more than 4 characters"):
        list(text_lines(io.StringIO("abcde")))
    with pytest.raises(TextTableError, match="line 2"):
        read(tmp_path, b"a\nabcdef\n")
    csv.field_size_limit(131072)


@pytest.mark.parametrize(
    "text, is_formula",
    [
        ("=1", True),
        ("@x", True),
        ("\tx", True),
        ("\rx", True),
        ("-x", True),
        ("+1+1", True),
        ("-1.5", False),
        ("+2e3", False),
        ("''=1", True),
        ("'a", False),
        ("a=1", False),
        ("", False),
        ("-.5", False),
        ("- 5", True),
        ("-1\n", True),
    ],
)
def test_what_a_spreadsheet_would_compute(text, is_formula):
    assert escape_formula(text) == ("'" + text if is_formula else text)


@given(st.text("'=+-@a1.\t", max_size=8))
def test_the_way_back(text):
    assert unescape_formula(escape_formula(text)) == text and escape_formula(text).lstrip("'")[:1] == text.lstrip("'")[:1]
