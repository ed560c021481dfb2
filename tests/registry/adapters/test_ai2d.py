import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.ai2d import ai2d
from qualm.registry.sample import Image, Sample


def question(name, right=1, **more):
    return {"abcLabel": False, "answerTexts": ["owl", "mouse", "grass", "fox"], "correctAnswer": right, "questionId": name, **more}


DIAGRAMS = {
    "10.png": {"What eats grass?": question("10.png-0")},
    "2.png": {"What eats mice?": question("2.png-0", 0), "Which letter is the owl?": question("2.png-1", 3, abcLabel=True)},
}


def layout(folder, diagrams=DIAGRAMS):
    for name in ("questions", "images"):
        (folder / name).mkdir(exist_ok=True)
    for diagram, questions in diagrams.items():
        (folder / "questions" / f"{diagram}.json").write_text(json.dumps({"imageName": diagram, "questions": questions}))
        (folder / "images" / diagram).write_bytes(diagram.encode())
    (folder / "categories.json").write_text(json.dumps({"2.png": "foodChainsWebs"}))
    (folder / "ai2d_test_ids.csv").write_text("2\n")
    return folder


def read(source, selects=lambda sample: True, **arguments):
    return list(ai2d(AdapterContext(source, source=source, selects=selects), **arguments))


def test_diagrams_by_number_and_their_questions(tmp_path):
    made = read(layout(tmp_path))
    assert [x.sample_id if isinstance(x, Sample) else x for x in made] == [
        Image("2.png", b"2.png", "images/2.png"),
        "2.png-0",
        "2.png-1",
        Image("10.png", b"10.png", "images/10.png"),
        "10.png-0",
    ]
    first, letters, last = (x for x in made if isinstance(x, Sample))
    assert first.choices[first.answer_index] == "owl" and first.question == "What eats mice?" and first.group == "2.png"
    assert (first.category, last.category) == ("foodChainsWebs", "")
    assert (first.meta["abc_label"], letters.meta["abc_label"]) == ("no", "yes")


def test_splits_are_of_diagrams(tmp_path):
    source = layout(tmp_path)
    by_split = {s: {x.sample_id for x in read(source, split=s) if isinstance(x, Sample)} for s in ("test", "train")}
    assert by_split == {"test": {"2.png-0", "2.png-1"}, "train": {"10.png-0"}}
    (source / "ai2d_test_ids.csv").write_text("2.png\n", encoding="utf-8-sig")
    assert [x.split for x in read(source, split="test") if isinstance(x, Sample)] == ["test", "test"]
    (source / "ai2d_test_ids.csv").write_text("two\n")
    with pytest.raises(AdapterError, match="expected numbers of diagrams, one a line, got 'two'"):
        read(source, split="test")
    (source / "ai2d_test_ids.csv").unlink()
    assert len(read(source)) == 5
    with pytest.raises(AdapterError, match="`split: all` needs no list"):
        read(source, split="train")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"correctAnswer": 4}, r"10\.png\.json: question 'What eats grass\?': correctAnswer: expected 0 to 3, got 4"),
        ({"correctAnswer": -1}, "correctAnswer: expected 0 to 3, got -1"),
        ({"correctAnswer": True}, "correctAnswer: expected 0 to 3, got True"),
        ({"answerTexts": ["a", "b"]}, "answerTexts: expected 4 texts"),
        ({"answerTexts": "abcd"}, "answerTexts: expected 4 texts, got 'abcd'"),
        ({"answerTexts": ["a", "b", "c", 4]}, "answerTexts: expected 4 texts"),
        ({"questionId": 7}, "expected a question, its id as text"),
        ({"abcLabel": "no"}, "abcLabel true or false"),
        ({"more": 1}, "unknown keys more"),
    ],
)
def test_damaged(tmp_path, change, says):
    with pytest.raises(AdapterError, match=says):
        read(layout(tmp_path, {"10.png": {"What eats grass?": question("10.png-0") | change}}))


def test_a_question_without_words_and_a_list_without_numbers(tmp_path):
    with pytest.raises(AdapterError, match="question ' ': expected a question, its id as text"):
        read(layout(tmp_path, {"10.png": {" ": question("10.png-0")}}))
    (tmp_path / "ai2d_test_ids.csv").write_text("\n")
    with pytest.raises(AdapterError, match="expected numbers of diagrams, one a line, got None"):
        read(tmp_path, split="test")
    (tmp_path / "questions" / "notes.png.json").write_text("")
    (tmp_path / "ai2d_test_ids.csv").write_text("10.png\n\n")
    with pytest.raises(AdapterError, match="question ' '"):
        read(tmp_path, split="test")
    assert read(tmp_path, split="train") == []


def test_names_and_categories_that_do_not_fit(tmp_path):
    source = layout(tmp_path)
    (source / "questions" / "2.png.json").write_text('{"imageName": "3.png", "questions": {}}')
    with pytest.raises(AdapterError, match=r"imageName: expected '2\.png' as the file is called, got '3\.png'"):
        read(source)
    (source / "categories.json").write_text('{"2.png": 7}')
    with pytest.raises(AdapterError, match=r"categories\.json: 2\.png: expected a category as text, got 7"):
        read(source)


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return layout(root), {"split": "test"}
