import json

import pytest

from qualm.registry.entries.infer_columns import _answer_is, _choices, _listed, _mapping, _pattern, _slices, _split, propose


def mapped(records, columns=None, adapter="image_table"):
    notes = []
    return _mapping(records, columns or list(records[0]), adapter, notes), notes


def test_a_column_of_ids_is_one_only_where_every_record_has_its_own():
    rows = [{"id": "1", "question": "a?", "answer": "x"}, {"id": "2", "question": "b?", "answer": "y"}]
    assert mapped(rows)[0]["id"] == "id" and mapped([rows[0], rows[0]])[0]["id"] is None
    assert mapped([rows[0], rows[0]])[1] == [f"not taken as ids, since {str(rows[0]['id'])!r} stands in 2 rows: id"]
    assert mapped([{"Question": "a?", "answer": "x"}])[0]["question"] == "Question"


@pytest.mark.parametrize(
    "name, split", [("data/train-00001.parquet", "train"), ("dev.csv", "val"), ("validation.json", "val"), ("test.tsv", "test")]
)
def test_splits_by_the_names_of_files(name, split):
    assert _split(name) == split


def test_lists_and_what_is_worth_slicing_by():
    assert _listed(["a", "b"]) and not _listed("ab") and _slices(["a", "b", "a", "b"]) and not _slices([str(i) for i in range(100)])


def test_how_answers_name_options():
    records = [{"a": "cat", "b": "dog", "answer": "B"}, {"a": "x", "b": "y", "answer": "A"}]
    assert _answer_is(records, "answer", ["a", "b"])[0] == "letter"
    by_text = [{"a": "cat", "b": "dog", "answer": "dog"}, {"a": "x", "b": "y", "answer": "x"}]
    assert _answer_is(by_text, "answer", ["a", "b"])[0] == "text"
    assert _choices(records, ["a", "b", "answer"]) == ["a", "b"] and _choices([{"c": ["x", "y"]}], ["c"]) in (["c"], [])


def test_a_pattern_fits_the_files_of_its_split_and_no_others():
    names = ["train-0.csv", "train-1.csv", "test-0.csv"]
    from fnmatch import fnmatch

    pattern = _pattern("train", names[:2], names)
    assert [n for n in names if fnmatch(n, pattern)] == names[:2] and _pattern("test", names[2:], names) == "test-0.csv"


@pytest.mark.parametrize("as_text", [False, True])
def test_a_column_of_lists_of_pictures(tmp_path, as_text):
    (tmp_path / "pictures").mkdir()
    for name in "abc":
        (tmp_path / "pictures" / f"{name}.png").write_bytes(b"")
    cells = [["a.png", "b.png"], ["c.png"], []]
    rows = [{"images": json.dumps(c) if as_text else c, "question": "Same?", "answer": "no"} for c in cells]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = propose(tmp_path)
    assert (found.adapter, found.args["image"], found.args["images"], found.args["text_only"]) == (
        "image_table",
        "images",
        "pictures",
        True,
    )
    assert any("text_only" in note for note in found.notes)


def test_parquet_with_a_list_of_pictures():
    picture = {"bytes": b"x", "path": None}
    rows = [{"pics": [picture, picture], "question": "a?", "answer": "x"}, {"pics": [], "question": "b?", "answer": "y"}]
    made, _ = mapped(rows, adapter="hf_parquet")
    assert made["image"] == "pics" and made["text_only"] is True
