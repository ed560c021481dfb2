"""VLMEvalKit's tables, row by row."""

import json
import zipfile

import numpy as np
import pytest

from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.record import ReadOptions, RecordingError
from qualm.registry.recordings.tables import excel_escape, excel_unescape
from qualm.registry.recordings.vlmevalkit import input_tables, names, pictures, read
from tests.support.data.recordings import b64, png, tsv, vek_row, xlsx

openpyxl = pytest.importorskip("openpyxl", reason="Excel tables are read by openpyxl, an extra")


def as_json(path, rows):
    path.write_text(json.dumps(rows))
    return path


def by_column(path, rows):
    return as_json(path, {k: [row[k] for row in rows] for k in rows[0]})


def split(path, rows):
    return as_json(path, {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]})


@pytest.mark.parametrize(
    ("write", "name"), [(tsv, "m_d.tsv"), (xlsx, "m_d.xlsx"), (as_json, "m_d.json"), (by_column, "x.json"), (split, "x.json")]
)
def test_predictions_in_every_form(tmp_path, write, name):
    path = write(tmp_path / name, [vek_row(3, "B"), vek_row(4, 'A dog,\n"I think"')])
    assert names(path)
    first, second = read(path, ReadOptions())
    assert (first.id, first.choices, first.answer_index, first.category, first.split) == ("3", ("a cat", "a dog"), 1, "animals", "dev")
    assert first.question == "What is in picture 3?" and first.draws == [{"text": "B"}]
    assert second.draws == [{"text": 'A dog,\n"I think"'}]


def test_an_open_question_with_a_hint_and_several_answers(tmp_path):
    row = {"index": 1, "question": "Who?", "hint": "Look left.", "answer": "['Ann', 'Bob']", "prediction": "Ann", "l2-category": "people"}
    (found,) = read(tsv(tmp_path / "m_d.tsv", [row]), ReadOptions())
    assert found.question == "Look left.\nWho?" and found.references == ("Ann", "Bob") and found.choices == ()
    assert found.meta == {"l2-category": "people"}


def test_answers_that_are_none(tmp_path):
    rows = [vek_row(1, "Failed to obtain answer via API."), vek_row(None, "x"), vek_row(3, "")]
    failed, nameless, empty = read(tsv(tmp_path / "m_d.tsv", rows), ReadOptions())
    assert failed.reason == "an answer that VLMEvalKit could not get" and failed.where == "m_d.tsv:2"
    assert nameless.reason == "no id"
    assert empty.draws == [{"text": ""}]


def test_numbers_are_as_a_spreadsheet_shows_them(tmp_path):
    row = {"index": 3.0, "sample_id": None, "question": 7.5, "answer": 4.0, "category": float("nan"), "prediction": 12.0}
    (found,) = read(as_json(tmp_path / "m_d.json", [row]), ReadOptions())
    assert (found.id, found.question, found.references, found.category) == ("3", "7.5", ("4",), "")
    assert found.draws == [{"text": "12"}]
    assert next(read(as_json(tmp_path / "m_d.json", [{**row, "index": 3.5}]), ReadOptions())).id == "3.5"
    assert next(read(as_json(tmp_path / "m_d.json", [{**row, "sample_id": "ours"}]), ReadOptions())).id == "ours"


@pytest.mark.parametrize(("answer", "index"), [("A", 0), ("C", 2), (" (c). ", 2), ("B", None), ("Z", None), ("a cat", None)])
def test_a_letter_names_an_option_that_the_row_has(tmp_path, answer, index):
    row = {"index": 1, "question": "?", "A": "a cat", "B": "", "C": "a dog", "answer": answer, "prediction": "A"}
    (found,) = read(tsv(tmp_path / "m_d.tsv", [row]), ReadOptions())
    assert (found.choices, found.answer_index, found.references) == (("a cat", "", "a dog"), index, () if index is not None else (answer,))


def test_pointers_are_of_64_characters_at_most(tmp_path):
    cells = ["x" * 64, b64(bytes(48)) + "AA==", '["7"]', '["7", "8"]']
    found = list(pictures(tsv(tmp_path / "d.tsv", [{**vek_row(i), "image": cell} for i, cell in enumerate(cells)])))
    assert [one.pointer for one in found] == ["x" * 64, "", "7", ""]
    assert found[1].data == (bytes(49),) and "not base64" in found[3].fault
    uri = f"data:image/png;base64,{b64(bytes(60))}"
    (found,) = pictures(tsv(tmp_path / "d.tsv", [{**vek_row(0), "image": uri, "sample_id": "ours"}]))
    assert (found.id, found.index, found.data) == ("ours", "0", (bytes(60),))


def test_formulas_are_not_computed(tmp_path):
    path = xlsx(tmp_path / "m_d.xlsx", [vek_row(1, "=1+1"), vek_row(2, '=HYPERLINK("http://x","y")'), vek_row(3, "B")])
    found = list(read(path, ReadOptions()))
    assert [getattr(f, "reason", "") for f in found] == ["a formula where a value is expected"] * 2 + [""]
    assert found[0].where == "m_d.xlsx:2"


def test_an_excel_file_that_unpacks_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr("qualm.registry.recordings.tables.MAX_UNPACKED", 10**6)
    path = tmp_path / "m_d.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", " " * 2 * 10**6)
    with pytest.raises(RecordingError, match="would unpack to 2,000,000 bytes"):
        list(read(path, ReadOptions()))
    path.write_bytes(b"PK nonsense")
    with pytest.raises(RecordingError, match="not an Excel table"):
        list(read(path, ReadOptions()))


def test_tables_that_are_none(tmp_path):
    (tmp_path / "two.tsv").write_text("index\tindex\tprediction\n1\t2\t3\n")
    with pytest.raises(RecordingError, match="two columns of one name: index"):
        list(read(tmp_path / "two.tsv", ReadOptions()))
    (tmp_path / "wide.tsv").write_text("index\tprediction\n1\ta\tb\n2\tc\n")
    wide, good = read(tmp_path / "wide.tsv", ReadOptions())
    assert isinstance(wide, Fault) and wide.reason == "more cells than columns" and good.id == "2"
    assert names(as_json(tmp_path / "results.json", {"acc": 1})) is None
    assert names(as_json(tmp_path / "list.json", [1, 2])) is None


def test_pictures_and_pointers(tmp_path):
    big = b64(png(side=64))
    large = b64(np.random.default_rng(0).bytes(90_000))
    lists = [f'["{big}", "{large}"]', f"['{large}', '{big}']", "[]", json.dumps([big] * 65)]
    rows = [{**vek_row(i), "image": cell} for i, cell in enumerate([big, "0", "not base64!" * 20, "", *lists])]
    path = tsv(tmp_path / "in" / "d.tsv", rows)
    found = list(pictures(path))
    assert found[0].data == (png(side=64),) and found[1].pointer == "0"
    assert "not base64" in found[2].fault and found[3].data == found[6].data == () and not found[6].fault
    assert [len(data) for data in found[4].data] == [len(png(side=64)), 90_000] and found[5].data == found[4].data[::-1]
    assert found[7].fault.endswith("has 65 images; more than 64 cannot be read")
    assert input_tables(tmp_path) == {"d": path}
    assert names(path) is None


def test_what_a_file_is_called(tmp_path):
    path = tsv(tmp_path / "T1" / "my_model_MMBench_DEV.tsv", [vek_row(1, "B")])
    assert {("my_model", "MMBench_DEV"), ("my", "model_MMBench_DEV"), ("T1", "MMBench_DEV")} <= names(path)


@pytest.mark.parametrize("text", ["plain", "a\x00b\x1f\r\n\tc", "_x0041_", "_x005F_x0041_", "\ufffe", "é\U0001f600", "=1"])
def test_texts_in_excel(text):
    assert excel_unescape(excel_escape(text)) == text
