import base64
import json

import pytest

from qualm.registry.entries.infer_columns import (
    NewCardError,
    _answer_is,
    _cells,
    _choices,
    _example,
    _is_sliceable,
    _is_vlmevalkit,
    _listed,
    _mapping,
    _pattern,
    _split,
    _splits,
    list_names,
    propose,
)


def mapped(records, columns=None, adapter="image_table"):
    notes = []
    return _mapping(records, columns or list(records[0]), adapter, notes), notes


def test_a_column_of_ids_is_one_only_where_every_record_has_its_own():
    rows = [{"id": "1", "question": "a?", "answer": "x"}, {"id": "2", "question": "b?", "answer": "y"}]
    assert mapped(rows)[0]["id"] == "id" and mapped([rows[0], rows[0]])[0]["id"] is None
    assert mapped([rows[0], rows[0]])[1] == [f"not taken as ids, since {str(rows[0]['id'])!r} stands in 2 rows: id"]
    assert mapped([{"Question": "a?", "answer": "x"}])[0]["question"] == "Question"


@pytest.mark.parametrize(
    "name, split", [("data/train-00001.parquet", "train"), ("dev.csv", "val"), ("validation.json", "val"), ("test.tsv", "test"),
     ("train/val-1.csv", "val"), ("train/data.csv", "train"), ("contest.csv", ""), ("trainee.csv", ""), ("a/b.csv", "")],
)  # fmt: skip
def test_splits_by_the_names_of_files(name, split):
    assert _split(name) == split


def test_lists_and_what_is_worth_slicing_by():
    assert (
        _listed(["a", "b"])
        and not _listed("ab")
        and _is_sliceable(["a", "b", "a", "b"])
        and not _is_sliceable([str(i) for i in range(100)])
    )


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


def test_a_column_for_each_picture(tmp_path):
    """By their numbers, whatever their order; an empty cell is no image, and a row without any a question of text alone."""
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(b"")
    (tmp_path / "test.csv").write_text("image_10,image_2,question,answer\n,a.png,Same?,no\na.png,a.png,Which?,no\n")
    found = propose(tmp_path).args
    assert (found["image"], found["images"], found["meta"]) == (["image_2", "image_10"], "pictures", [])
    assert "text_only" not in found
    (tmp_path / "test.csv").write_text("Image1,Image2,question,answer\n,,Same?,no\na.png,a.png,Which?,no\n")
    assert (propose(tmp_path).args["image"], propose(tmp_path).args["text_only"]) == (["Image1", "Image2"], True)


@pytest.mark.parametrize("columns", [["image_1", "size"], ["size1", "size2"], ["imagery1", "imagery2"]])
def test_columns_that_are_no_series_of_pictures(columns):
    assert mapped([dict.fromkeys(columns, "a.png")])[0]["image"] is None


def test_parquet_with_a_column_for_each_picture():
    picture = {"bytes": b"x", "path": None}
    made, _ = mapped([{"image_1": picture, "image_2": None, "question": "a?"}, {"image_1": picture, "image_2": picture}])
    assert made["image"] == ["image_1", "image_2"] and "text_only" not in made
    assert mapped([{"image_1": picture, "image_2": 5, "question": "a?"}])[0]["image"] == "image_1"


def test_parquet_with_a_list_of_pictures():
    picture = {"bytes": b"x", "path": None}
    rows = [{"pics": [picture, picture], "question": "a?", "answer": "x"}, {"pics": [], "question": "b?", "answer": "y"}]
    made, _ = mapped(rows)
    assert made["image"] == "pics" and made["text_only"] is True


def test_files_without_a_split_in_their_names():
    notes = []
    assert _splits(["a.csv", "b.csv"], notes) == {"test": "*.csv"} and notes == []
    assert _splits(["train.csv", *(f"{n}.csv" for n in range(5))], notes) == {"train": "train.csv"}
    assert _splits(["dev.csv", "train.csv", *(f"{n}.csv" for n in range(6))], notes) == {"train": "train.csv", "val": "dev.csv"}
    begin = "not taken, since no split is in their names: 0.csv, 1.csv, 2.csv, 3.csv, 4.csv"
    assert notes == [begin, f"{begin}..."]


@pytest.mark.parametrize(
    ("files", "others", "pattern"),
    [
        (["train-00.csv", "train-01.csv"], ["train.txt", "test-00.csv"], "train-*.csv"),
        (["train/a/0.csv", "train/b/0.csv"], ["test/a/0.csv"], "train/**/*.csv"),
        (["train/0.csv", "train/1.csv"], ["test/0.csv"], "train/*.csv"),
        (["x/train.csv", "y/train.csv"], [], "**/*.csv"),
    ],
)
def test_a_pattern_of_several_files(files, others, pattern):
    assert _pattern("train", files, [*others, *files]) == pattern


def test_files_that_no_pattern_fits():
    files = [f"train-{n}.csv" for n in range(7)]
    with pytest.raises(NewCardError, match=r"train: no pattern fits train-0.csv, .*train-4.csv and no other file; say `-O 'files={train:"):
        _pattern("train", files, [*files, "train-8.csv"])
    with pytest.raises(NewCardError, match=r"'train\[1\].csv': a file name with one of"):
        _pattern("train", ["train[1].csv"], ["train[1].csv"])


def test_columns_of_options():
    assert _choices([{"Options": None}, {"Options": "  ['a']"}], ["Options"]) == ["Options"]
    assert _choices([{"options": "a or b"}], ["options"]) == []
    assert _choices([{}], ["D", "B", "A", "C", "F"]) == ["A", "B", "C", "D"], "up to the first gap"
    assert _choices([{}], ["choice1", "choice2", "choice3"]) == ["choice1", "choice2", "choice3"]
    assert _choices([{}], ["A", "C"]) == [] == _choices([{}], ["b", "c"])
    assert _choices([{}], [f"choice{n}" for n in range(1, 11)]) == [f"choice{n}" for n in range(1, 10)], "of one digit"
    assert len(_choices([{}], [chr(ord("A") + n) for n in range(26)])) == 26


def test_every_reading_under_which_answers_are_options():
    options = {"a": "one", "b": "two", "c": "three"}
    columns = list(options)
    assert _answer_is([options | {"answer": "1"}, options | {"answer": "2"}], "answer", columns) == ["index", "index_from_1"]
    assert _answer_is([options | {"answer": "0"}, options | {"answer": "2"}], "answer", columns) == ["index"]
    assert _answer_is([options | {"answer": "3"}, options | {"answer": ""}], "answer", columns) == ["index_from_1"]
    assert _answer_is([options | {"answer": "four"}], "answer", columns) == ["text"]
    made, notes = mapped([options | {"question": "q?", "answer": n} for n in "12"])
    assert made["answer_is"] == "index" and made["choices"] == columns
    assert notes == ["answers are read as index, and could be index_from_1: look at the samples, or say `-O answer_is=...`"]


def test_columns_that_answers_are_looked_at_by():
    assert _is_sliceable(["a", "a", None, ""]) and _is_sliceable([1, 1]) and _is_sliceable([True, True, False])
    assert (
        _is_sliceable(["a", "b", "b"])
        and not _is_sliceable(["a", "b"])
        and not _is_sliceable([])
        and not _is_sliceable([0.5, 0.5])
        and not _is_sliceable([["a"], ["a"]])
    )
    assert _is_sliceable(["x" * 40] * 2) and not _is_sliceable(["x" * 41] * 2)
    rows = [{"question": "a?", "answer": "x", "level": "hard", "note": n, "type": "t"} for n in "ab"]
    made, _ = mapped(rows)
    assert made["meta"] == ["level"] and made["category"] == "type", "what is read already is no slice besides"
    assert made["image"] is None and made["id"] is None and "answerable" not in made and "text_only" not in made
    assert mapped([row | {"answerable": 1} for row in rows])[0]["answerable"] == "answerable"


def test_a_table_in_the_layout_of_vlmevalkit(tmp_path):
    picture = base64.b64encode(bytes(600)).decode()
    for name, text, fits in (
        ("a.tsv", "index\tquestion\n1\tq?\n", True),
        ("b.tsv", "id\tquestion\n1\tq?\n", False),
        ("c.csv", "index,question\n1,q?\n", False),
        ("d.csv", "index,question,image_path\n1,q?,a.png\n", True),
        ("e.csv", f"index,question,image\n1,q?,{picture}\n", True),
        ("f.csv", "index,question,image\n1,q?,aaaa\n", False),
        ("g.csv", f"index,question,image\n1,q?,{'!' * 800}\n", False),
        ("h.csv", "index,question,image\n", False),
    ):
        (tmp_path / name).write_text(text)
        assert _is_vlmevalkit(tmp_path / name) is fits, name


def test_pictures_that_a_cell_names():
    assert _cells("a.png") == ["a.png"] and _cells(["a", "", None]) == ["a"] and _cells(None) == [] == _cells("")
    assert _cells(' ["a", "b"]') == ["a", "b"] and _cells("[a") == ["[a"]


def test_an_example_of_a_column():
    assert _example([None, "", [], "x  y\n"]) == "x y" and _example([None]) == "" and _example([0]) == "0"
    assert _example(["x" * 40]) == "x" * 40 and _example(["x" * 41]) == "x" * 37 + "..."
    assert _example([{"bytes": b"", "path": None}]) == "an image" == _example([[b"x"]])


@pytest.mark.parametrize(("columns", "images"), [("image_path", "pictures"), ("image\timage_path", None), ("image", None)])
def test_where_pictures_lie_is_asked_of_a_table_that_has_none(tmp_path, columns, images):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(b"")
    (tmp_path / "test.tsv").write_text(f"index\tquestion\t{columns}\n1\tq?\ta.png" + "\ta.png" * columns.count("\t") + "\n")
    found = propose(tmp_path)
    assert found.adapter == "vlmevalkit_tsv" and found.args == {"files": {"test": "test.tsv"}} | ({"images": images} if images else {})


def test_a_file_that_cannot_be_read_is_none_that_an_adapter_reads(tmp_path):
    (tmp_path / "broken.json").write_text("[")
    (tmp_path / "empty.json").write_text("")
    with pytest.raises(NewCardError, match=r"there is: \.json$"):
        propose(tmp_path)
    (tmp_path / "test.csv").write_text("question,answer\na?,x\n")
    assert propose(tmp_path).args["files"] == {"test": "test.csv"}


def test_at_most_200_records_of_each_file_are_looked_at(tmp_path):
    for split, first in (("train", "seen"), ("test", "too")):
        lines = [{"question": "a?", first: 1}] * 200 + [{"question": "a?", "late": 1}]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(propose(tmp_path).columns) == ["question", "seen", "too"]


def test_names_are_those_of_files_in_order(tmp_path):
    for name in ("b/2.csv", "b/1.csv", "a.csv", ".git/x", "b/.DS_Store"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link.csv").symlink_to("a.csv")
    (tmp_path / "folder").symlink_to("b")
    assert list_names(tmp_path) == ["a.csv", "b/1.csv", "b/2.csv"]


def table(folder, **splits):
    """A table for each split, of pictures by these names."""
    for split, names in splits.items():
        lines = "".join(json.dumps({"image": name, "question": "a?", "answer": "x"}) + "\n" for name in names)
        (folder / f"{split}.jsonl").write_text(lines)


@pytest.mark.parametrize(
    ("there", "named", "images"),
    [
        (["p/a.png"], {"test": ["p/a.png"]}, "."),
        (["p/a.png"], {"test": ["a.png"]}, "p"),
        (["p/q/a.png", "p/b.png"], {"test": ["a.png"]}, "p/q"),
        (["p/a.png", "q/a.png", "q/b.png"], {"test": ["a.png", "b.png"]}, "q"),
        (["train/a.png", "test/b.png"], {"train": ["a.png"], "test": ["b.png"]}, "{split}"),
        (["p/a.png"], {"test": ["nowhere.png"]}, "."),
        (["a/b/c/p.png", "a/b/c/d/q.png"], {"test": ["p.png", "d/q.png"]}, "a/b/c"),
        (["a/b/c/d/p.png"], {"test": ["p.png"]}, "."),
        (["test/a.png"], {"test": ["a.png"]}, "test"),
        (["p/a.png", "p/b.png", "q/a.png"], {"test": ["a.png", "b.png"]}, "p"),
        (["test/val/a.png", "val/val/b.png"], {"val": ["b.png"], "test": ["a.png"]}, "{split}/val"),
        (["q/a.png", "p/b.png", "p/c.png"], {"test": ["a.png"] * 20 + ["b.png", "c.png"]}, "q"),
    ],
)
def test_where_pictures_lie(tmp_path, there, named, images):
    for name in there:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    table(tmp_path, **named)
    found = propose(tmp_path)
    assert found.adapter == "image_table" and found.args["images"] == images
    assert found.args["files"] == {split: f"{split}.jsonl" for split in named}
    assert found.columns == {"image": next(iter(named.values()))[0], "question": "a?", "answer": "x"}


def test_a_coco_file_and_a_list_in_json_are_distinguished(tmp_path):
    (tmp_path / "list.json").write_text('[{"question": "a?", "answer": "x"}]')
    (tmp_path / "other.json").write_text("[1]")
    assert propose(tmp_path).adapter == "image_table" and propose(tmp_path).args["files"] == {"test": "list.json"}
    coco = {"images": [{"id": 1, "file_name": "a.png"}], "annotations": [{"image_id": 1, "id": 7, "caption": "A cat."}]}
    (tmp_path / "captions.json").write_text(json.dumps(coco))
    found = propose(tmp_path)
    assert found.adapter == "coco_folder" and found.args["files"] == {"test": "captions.json"}
    assert (found.args["per"], found.args["instruction"], found.args["answer"]) == ("image", "Describe the picture.", "caption")
    assert "image" not in found.args and "meta" not in found.args


def test_a_folder_with_nothing_to_read(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(NewCardError, match=r"expected Parquet, CSV, TSV, JSON or JSON Lines with questions; there is: \.txt"):
        propose(tmp_path)
    (tmp_path / "test.csv").write_text("question,answer\n")
    with pytest.raises(NewCardError, match=r"test\.csv: no records"):
        propose(tmp_path)
    (tmp_path / "test.csv").unlink()
    (tmp_path / "test.json").write_text('[{"question": "a?"}, 3]')
    with pytest.raises(NewCardError, match="expected an object of keys, got 3"):
        propose(tmp_path)
