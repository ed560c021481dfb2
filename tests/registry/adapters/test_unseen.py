import pytest

from qualm.registry.adapters import AdapterError
from qualm.registry.adapters._unseen import ANSWERABLE, IDS, find_image, wrap_record


@pytest.mark.parametrize(
    ("record", "question", "answers"),
    [
        ({"Question": " Who? ", "answers": ["a", 2, ""]}, "Who?", ("a", "2")),
        ({"text": "Who?", "ground_truth": "a"}, "Who?", ("a",)),
        ({"conversations": [{"from": "human", "value": "Who?\n<image>"}, {"from": "gpt", "value": "a"}]}, "Who?", ("a",)),
        ({"messages": [{"role": "user", "content": "Who?"}]}, "Who?", ()),
        ({"conversations": [{"value": "<image>"}]}, None, ()),
        ({"conversations": [{"value": "Who?"}, {"content": " a"}, {"value": "How?"}, {"value": "b"}]}, "Who?", (" a",)),
        ({"conversations": [{"value": "Who?"}, {"value": "a"}], "answer": "b"}, "Who?", ("b",)),
        ({"conversations": [{"value": "Who?"}, {"value": "a"}], "query": "How?"}, "How?", ()),
        ({"question": None, "query": 7, "answer": None, "answers": ""}, "7", ()),
        ({"question": "<image>\nIs <image> it?", "answer": 2.5}, "Is it?", ("2.5",)),
        ({}, None, ()),
    ],
)
def test_questions_and_answers_by_usual_names(record, question, answers):
    assert wrap_record(record, "here").talk() == (question, answers)


SAID = {"yes": True, "TRUE": True, 1: True, "1": True, "no": False, "false": False, 0: False, "0": False}


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"answerable": True}, True), ({"answerable": "unanswerable"}, False), ({"is_unanswerable": 1}, False), ({"answerable": 1.0}, True),
        *(({name: word}, truth == (name == "answerable")) for name in ("answerable", "unanswerable") for word, truth in SAID.items()),
        ({"unanswerable": "answerable"}, True), ({"is_answerable": "unanswerable "}, False),
        ({"unanswerable": "no"}, True), ({"answerability": "answerable"}, True), ({}, None), ({"answerable": None}, None),
    ],
)  # fmt: skip
def test_whether_there_is_an_answer(record, says):
    assert wrap_record(record, "here").answerable() is says


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"answer": {"a": 1}}, "answer: expected a text or a list of texts"),
        ({"conversations": "Who?"}, "conversations: expected a list of turns"),
        ({"question": True}, "question: expected a text or number"),
        ({"question": " "}, "question: expected a text or number, got ' '"),
        ({"question": []}, r"question: expected a text or number, got \[\]"),
        ({"answers": ["a", True]}, r"answers: expected a text or a list of texts, got \['a', True\]"),
        ({"conversations": []}, r"conversations: expected a list of turns, got \[\]"),
        ({"conversations": [{"value": "Who?"}, "a"]}, "conversations: expected a list of turns"),
    ],
)
def test_values_of_another_kind_are_named(record, why):
    with pytest.raises(AdapterError, match=f"here: {why}"):
        wrap_record(record, "here").talk()


def test_what_says_neither_that_there_is_an_answer_nor_that_there_is_none():
    with pytest.raises(AdapterError, match="here: Answerable: expected true or false, got 'maybe'"):
        wrap_record({"Answerable": "maybe"}, "here").answerable()


def test_pictures_with_their_suffix_or_without(tmp_path):
    (tmp_path / "images").mkdir()
    for name in ("a.JPG", "b.png", "images/b.jpg", "images/c.webp", "d.gif"):
        (tmp_path / name).write_bytes(name.encode())
    found = {name: find_image(tmp_path, name, "id", "here").data.decode() for name in ("a.JPG", "b", "c", "c.webp", "d.gif")}
    assert found == {"a.JPG": "a.JPG", "b": "images/b.jpg", "c": "images/c.webp", "c.webp": "images/c.webp", "d.gif": "d.gif"}
    with pytest.raises(AdapterError, match=r"here: expected its image at x\.png or images/x\.png within"):
        find_image(tmp_path, "x.png", "id", "here")


def test_nothing_is_guessed():
    one = wrap_record({"uid": 0, "b": 1, "a": None}, "here")
    assert one.text(IDS) == "0" and one.field(ANSWERABLE) is None and one.extras(["a", "b", "c"]) == {"b": "1"}
    assert "here: expected x; fields that are there: a, b, uid." in str(one.unlike("x"))
    with pytest.raises(AdapterError, match="here: expected an object, got 3"):
        wrap_record(3, "here")
