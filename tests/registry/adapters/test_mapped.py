"""A row of anybody's table: what its columns are said to hold, or an error that says what they do hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qualm.registry.adapters import AdapterError
from qualm.registry.adapters._mapped import Columns, files_by_split, image_path, picture_prefix
from qualm.registry.sample import Sample


def made(row: dict[str, Any], **columns: Any) -> Sample:
    return Columns("x", **{"question": "q", **columns}).sample(row, "picture", "test", "", "here")


def test_an_open_question() -> None:
    sample = made(
        {"q": "What?", "a": ["cat", "cats"], "n": 7, "k": "animals/pets", "ok": "no", "m": 1.0, "void": None},
        answer="a",
        id="n",
        category="k",
        answerable="ok",
        meta=["m", "void"],
        instruction="In a word.",
    )
    assert sample == Sample(
        "7", "In a word.\nWhat?", "picture", ("cat", "cats"), category="animals/pets", answerable=False, source="x", group="picture",
        meta={"m": "1"},
    )  # fmt: skip
    assert made({"q": "What?", "a": '["cat", 3]'}, answer="a").references == ("cat", "3")
    assert made({"q": "What?", "a": ""}, answer="a").references == ()


@pytest.mark.parametrize(
    ("row", "answer", "references"),
    [
        ({"answers": [{"answer": "x", "answer_id": 1}, {"answer": "y", "answer_id": 2}]}, "answers.answer", ("x", "y")),
        ({"answers": {"text": ["x"], "answer_start": [3]}}, "answers.text", ("x",)),
        ({"answers": {"text": [], "answer_start": []}}, "answers.text", ()),
        ({"answers": [{"answer": {"text": ["x", "y"]}}, {"answer": None}]}, "answers.answer.text", ("x", "y")),
        ({"answers": '[{"answer": "x"}, {"answer": ""}]'}, "answers.answer", ("x",)),
        ({"answers": None}, "answers.answer", ()),
        ({"answers": []}, "answers.answer", ()),
        ({"answers.answer": "literal", "answers": {"answer": "nested"}}, "answers.answer", ("literal",)),
        ({"a": {"b.c": "dotted", "b": {"c": "nested"}}}, "a.b.c", ("dotted",)),
        ({"a": ["x", None, "", "y"]}, "a", ("x", "y")),
        ({"a": "['It\\'s x', \"y\", 3]"}, "a", ("It's x", "y", "3")),
        ({"a": [0.1, 3.0, 12345678901234567168.0, 1e300, 10**25]}, "a", ("0.1", "3", "12345678901234567000", "1e+300", "1" + "0" * 25)),
    ],
)
def test_answers_in_fields_and_lists(row: dict[str, Any], answer: str, references: tuple[str, ...]) -> None:
    assert made({"q": "?", **row}, answer=answer).references == references


def test_several_answers_and_options_in_one_text() -> None:
    assert made({"q": "?", "a": "grey | gray|"}, answer="a", separator="|").references == ("grey", "gray")
    assert made({"q": "?", "a": "grey | gray"}, answer="a").references == ("grey | gray",)
    assert made({"q": "?", "a": '["a|b", "c"]'}, answer="a", separator="|").references == ("a|b", "c")
    listed = made({"q": "?", "o": "red|green|blue", "a": "green"}, answer="a", choices=["o"], separator="|")
    assert listed.choices == ("red", "green", "blue") and listed.answer_index == 1


def test_options_as_python_writes_them() -> None:
    sample = made({"q": "?", "o": "['It\\'s x', \"y\", 'z']", "a": "A"}, answer="a", choices=["o"], answer_is="letter")
    assert sample.choices == ("It's x", "y", "z") and sample.answer_index == 0
    assert made({"q": "?", "o": "[]", "a": "['24/7', '3.43']"}, answer="a", choices=["o"]).references == ("24/7", "3.43")
    assert made(
        {"q": "?", "o": {"text": ["x", "y"], "label": ["A", "B"]}, "a": "B"}, answer="a", choices=["o.text"], answer_is="letter"
    ).choices == ("x", "y")


def test_ids_are_of_the_content() -> None:
    one, same, other = made({"q": "What?"}), made({"q": "What?"}), made({"q": "Who?"})
    assert one.sample_id == same.sample_id != other.sample_id and len(one.sample_id) == 16


@pytest.mark.parametrize(
    ("answer_is", "value", "index"),
    [
        ("letter", "B", 1),
        ("letter", " b", 1),
        ("text", "dog ", 1),
        ("index", 1, 1),
        ("index", "2", 2),
        ("index_from_1", 1, 0),
        ("text", None, None),
    ],
)
def test_the_right_option(answer_is: str, value: Any, index: int | None) -> None:
    several = {"q": "?", "A": "cat", "B": "dog", "C": "3", "D": "", "a": value}
    sample = made(several, answer="a", answer_is=answer_is, choices=["A", "B", "C", "D"])
    assert sample.choices == ("cat", "dog", "3") and sample.answer_index == index and sample.references == ()
    listed = {"q": "?", "options": ["cat", "dog", 3], "a": value}
    assert made(listed, answer="a", answer_is=answer_is, choices=["options"]).answer_index == index


@pytest.mark.parametrize(
    ("row", "columns", "said"),
    [
        ({"q": "?"}, {"answer": "a"}, r"here: no column 'a'; there are: q; correct the card's args"),
        ({"q": "  "}, {}, "here: q: expected a text or a number, got '  '"),
        ({"q": {"x": 1}}, {}, "here: q: a record of x; name one of them, as q.x"),
        ({"q": "x" * 100_001}, {}, "a text of 100,001 characters"),
        ({"q": "?"}, {"question": None}, "no question; on the card, name its column"),
        ({"q": "?", "ok": "maybe"}, {"answerable": "ok"}, "expected true or false"),
        ({"q": "?", "id": "a\nb"}, {"id": "id"}, "expected a name"),
        ({"q": "?", "o": '["a"'}, {"choices": ["o"]}, "expected a list, or one as JSON"),
        ({"q": "?", "o": ["a"]}, {"choices": ["o"]}, "expected two options at least"),
        ({"q": "?", "A": "a", "B": "", "C": "c"}, {"choices": ["A", "B", "C"]}, "options without a gap"),
        ({"q": "?", "o": ["a", "b"], "a": "c"}, {"choices": ["o"], "answer": "a"}, r"expected one of a \| b \(answer_is: text\), got 'c'"),
        ({"q": "?", "o": ["a", "a"], "a": "a"}, {"choices": ["o"], "answer": "a"}, "expected one of"),
        ({"q": "?", "o": ["a", "b"], "a": "C"}, {"choices": ["o"], "answer": "a", "answer_is": "letter"}, "expected one of AB"),
        ({"q": "?", "o": ["a", "b"], "a": 2}, {"choices": ["o"], "answer": "a", "answer_is": "index"}, "expected one of 0 to 1"),
        ({"q": "?", "o": ["a", "b"], "a": ["a", "b"]}, {"choices": ["o"], "answer": "a"}, "expected one right option, got 2"),
        ({"q": "?", "o": ["a", "b"], "a": []}, {"choices": ["o"], "answer": "a"}, None),
        (
            {"q": "?", "o": ["a", "b"], "a": 0},
            {"choices": ["o"], "answer": "a", "answer_is": "index_from_1"},
            "expected one of 1 to 2 .*got '0'",
        ),
        ({"q": "?", "o": ["a", "b"], "a": 3}, {"choices": ["o"], "answer": "a", "answer_is": "index_from_1"}, "expected one of 1 to 2"),
        ({"q": "?", "o": ["a", "b"], "a": "AB"}, {"choices": ["o"], "answer": "a", "answer_is": "letter"}, "expected one of AB .*got 'AB'"),
        ({"q": "?", "o": 3}, {"choices": ["o"]}, "here: o: expected a list, got 3"),
        ({"q": "?", "id": "x" * 1001}, {"id": "id"}, "expected a name of at most 1,000 characters"),
        ({"q": float("nan")}, {}, "here: q: expected a text or a number, got nan"),
        ({"q": "?", "a": [{"x": 1, "y": 2}]}, {"answer": "a"}, "here: a: a record of x, y; name one of them, as a.x"),
        ({"q": "?", "a": {"x": 1}}, {"answer": "a.y"}, "here: a: no field 'y'; there are: x"),
        ({"q": "?", "a": 3}, {"answer": "a.y"}, "here: a: expected a record with 'y', got 3"),
        ({"q": "?", "a": "{x"}, {"answer": "a.y"}, "here: a: expected a record with 'y', or one as JSON"),
        ({"q": "?", "a": "['x' 'y']"}, {"answer": "a"}, "here: a: expected a list, or one as JSON or Python text"),
        ({"q": "?", "o": "a|b"}, {"choices": ["o"]}, "`separator` says what parts a text of several"),
        ({"q": "?", "ok": 2}, {"answerable": "ok"}, "here: ok: expected true or false, 1 or 0, yes or no, got 2"),
        ({"q": "?", "ok": 1, "no": 1}, {"answerable": "ok", "unanswerable": "no"}, "`answerable` and `unanswerable` both name a column"),
    ],
)
def test_what_is_not_as_it_was_said(row: dict[str, Any], columns: dict[str, Any], said: str) -> None:
    if said is None:
        assert made(row, **columns).answer_index is None
        return
    with pytest.raises(AdapterError, match=said):
        made(row, **columns)


def test_as_long_as_may_be() -> None:
    assert len(made({"q": "x" * 100_000}).question) == 100_000
    assert len(made({"q": "?", "n": "x" * 1000}, id="n").sample_id) == 1000


@pytest.mark.parametrize(
    ("value", "good"), [(True, True), ("TRUE ", True), (1, True), (1.0, True), ("yes", True), (False, False), ("No", False), (0, False)]
)
def test_answerable_and_the_other_way_round(value: Any, good: bool) -> None:
    assert made({"q": "?", "k": value}, answerable="k").answerable is good
    assert made({"q": "?", "k": value}, unanswerable="k").answerable is not good
    assert made({"q": "?", "k": value}).answerable is True


def test_groups_ids_and_categories() -> None:
    columns = Columns("x", question="q", id="n", category="k", group="g")
    sample = columns.sample({"q": "?", "n": 3.0, "k": None, "g": True}, '["a", "b"]', "test", "val_", "here")
    assert (sample.sample_id, sample.category, sample.group) == ("val_3", "", "true")
    by_picture = Columns("x", question="q")
    groups = [by_picture.sample({"q": "?"}, image, "test", "", "here").group for image in ('["a", "b"]', "c", None)]
    assert groups == ["a", "c", ""]
    assert len({by_picture.sample({"q": "?"}, image, "", "", "here").sample_id for image in ("a", "b", None)}) == 3
    with_options = Columns("x", question="q", choices=["o"])
    assert len({with_options.sample({"q": "?", "o": o}, "a", "", "", "here").sample_id for o in (["a", "b"], ["a", "c"], ["b", "a"])}) == 3


def test_values_of_a_table_as_text() -> None:
    row = {
        "q": 7.5,
        "bool": False,
        "whole": 2.0,
        "part": 2.5,
        "list": ["é", 1],
        "map": {"a": None},
        "no": None,
        "nan": float("nan"),
        "e": "",
    }
    sample = made(row, meta=list(row)[1:])
    assert sample.question == "7.5"
    assert sample.meta == {"bool": "false", "whole": "2", "part": "2.5", "list": '["é", 1]', "map": '{"a": null}'}


def test_columns_that_are_read() -> None:
    columns = Columns("x", question="q", answer="a", id="i", category="c", unanswerable="u", group="i", choices=["A", "q"], meta=["m", "a"])
    assert columns.needed == ["q", "a", "i", "c", "u", "A"] and columns.names == ["q", "a", "i", "c", "u", "A", "m"]


def test_files_of_splits(tmp_path: Path) -> None:
    (tmp_path / "in/data").mkdir(parents=True)
    for name in ("in/data/train-1.csv", "in/data/train-0.csv", "in/test.csv", "out.csv"):
        (tmp_path / name).write_text("x")
    (tmp_path / "in/link.csv").symlink_to(tmp_path / "out.csv")
    found = list(files_by_split(tmp_path / "in", {"train": "data/train-*.csv", "test": "*.csv"}))
    assert [(split, prefix, path.name) for split, prefix, path in found] == [
        ("train", "train_", "train-0.csv"),
        ("train", "train_", "train-1.csv"),
        ("test", "test_", "test.csv"),
    ]
    assert [prefix for _, prefix, _ in files_by_split(tmp_path / "in", {"test": "test.csv"})] == [""]
    for pattern in ("../out.csv", "/etc/*", "", "x**.csv"):
        with pytest.raises(AdapterError, match="expected a path or pattern inside the source"):
            list(files_by_split(tmp_path / "in", {"test": pattern}))
    with pytest.raises(AdapterError, match=r"no file fits 'x\*'; there are: data, link.csv, test.csv"):
        list(files_by_split(tmp_path / "in", {"test": "x*"}))


def test_places_of_pictures() -> None:
    assert image_path("images/{split}", "val", "a.jpg") == "images/val/a.jpg" and image_path(".", "val", "b/a.jpg") == "b/a.jpg"
    assert image_path("{split.__class__}", "val", "a.jpg") == "{split.__class__}/a.jpg"
    assert picture_prefix("images/{split}", "val_") == "val_" and picture_prefix("images", "val_") == ""
