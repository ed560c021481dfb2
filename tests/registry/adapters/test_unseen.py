import pytest

from qualm.registry.adapters import AdapterError
from qualm.registry.adapters._unseen import ANSWERABLE, IDS, unseen


@pytest.mark.parametrize(
    ("record", "question", "answers"),
    [
        ({"Question": " Who? ", "answers": ["a", 2, ""]}, "Who?", ("a", "2")),
        ({"text": "Who?", "ground_truth": "a"}, "Who?", ("a",)),
        ({"conversations": [{"from": "human", "value": "Who?\n<image>"}, {"from": "gpt", "value": "a"}]}, "Who?", ("a",)),
        ({"messages": [{"role": "user", "content": "Who?"}]}, "Who?", ()),
        ({"conversations": [{"value": "<image>"}]}, None, ()),
        ({}, None, ()),
    ],
)
def test_questions_and_answers_by_usual_names(record, question, answers):
    assert unseen(record, "here").talk() == (question, answers)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"answerable": True}, True), ({"answerable": "unanswerable"}, False), ({"is_unanswerable": 1}, False),
        ({"unanswerable": "no"}, True), ({"answerability": "answerable"}, True), ({}, None), ({"answerable": None}, None),
    ],
)  # fmt: skip
def test_whether_there_is_an_answer(record, says):
    assert unseen(record, "here").answerable() is says


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"answer": {"a": 1}}, "answer: expected a text or a list of texts"),
        ({"conversations": "Who?"}, "conversations: expected a list of turns"),
        ({"question": True}, "question: expected a text or number"),
    ],
)
def test_values_of_another_kind_are_named(record, why):
    with pytest.raises(AdapterError, match=f"here: {why}"):
        unseen(record, "here").talk()


def test_nothing_is_guessed():
    one = unseen({"uid": 0, "b": 1, "a": None}, "here")
    assert one.text(IDS) == "0" and one.field(ANSWERABLE) is None and one.extras(["a", "b", "c"]) == {"b": "1"}
    assert "here: expected x; fields that are there: a, b, uid." in str(one.unlike("x"))
    with pytest.raises(AdapterError, match="here: expected an object, got 3"):
        unseen(3, "here")
