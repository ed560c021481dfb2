"""A row of anybody's table: what its columns are said to hold, or an error that says what they do hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qualm.registry.adapters import AdapterError
from qualm.registry.adapters._mapped import Columns, parts, placed
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
        prompt="In a word.",
    )
    assert sample == Sample(
        "7", "In a word.\nWhat?", "picture", ("cat", "cats"), category="animals/pets", answerable=False, source="x", group="picture",
        meta={"m": "1"},
    )  # fmt: skip
    assert made({"q": "What?", "a": '["cat", 3]'}, answer="a").references == ("cat", "3")
    assert made({"q": "What?", "a": ""}, answer="a").references == ()


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
        ({"q": {"x": 1}}, {}, "here: q: expected a text or a number"),
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
    ],
)
def test_what_is_not_as_it_was_said(row: dict[str, Any], columns: dict[str, Any], said: str) -> None:
    with pytest.raises(AdapterError, match=said):
        made(row, **columns)


def test_files_of_splits(tmp_path: Path) -> None:
    (tmp_path / "in/data").mkdir(parents=True)
    for name in ("in/data/train-1.csv", "in/data/train-0.csv", "in/test.csv", "out.csv"):
        (tmp_path / name).write_text("x")
    (tmp_path / "in/link.csv").symlink_to(tmp_path / "out.csv")
    found = list(parts(tmp_path / "in", {"train": "data/train-*.csv", "test": "*.csv"}))
    assert [(split, prefix, path.name) for split, prefix, path in found] == [
        ("train", "train_", "train-0.csv"),
        ("train", "train_", "train-1.csv"),
        ("test", "test_", "test.csv"),
    ]
    assert [prefix for _, prefix, _ in parts(tmp_path / "in", {"test": "test.csv"})] == [""]
    for pattern in ("../out.csv", "/etc/*", "", "x**.csv"):
        with pytest.raises(AdapterError, match="expected a path or pattern inside the source"):
            list(parts(tmp_path / "in", {"test": pattern}))
    with pytest.raises(AdapterError, match=r"no file fits 'x\*'; there are: data, link.csv, test.csv"):
        list(parts(tmp_path / "in", {"test": "x*"}))


def test_places_of_pictures() -> None:
    assert placed("images/{split}", "val", "a.jpg") == "images/val/a.jpg" and placed(".", "val", "b/a.jpg") == "b/a.jpg"
    assert placed("{split.__class__}", "val", "a.jpg") == "{split.__class__}/a.jpg"
