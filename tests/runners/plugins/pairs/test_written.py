import pytest

from qualm.runners.contracts.generators import UnusableReply
from qualm.runners.plugins.pairs._written import Written, gives_away, questions_of, read_pair, sections, value

PAIR = {"Q1": "What is the cat's name?", "A1": "I don't know.", "Q2": "What color is the cat?", "A2": "black"}


def reply(**changes):
    return "\n".join(f"{label}: {text}" for label, text in {**PAIR, **changes}.items())


def test_four_lines_are_a_pair_with_or_without_bold_labels():
    expected = Written(*PAIR.values())
    assert read_pair(reply()) == expected == read_pair(reply().replace("Q1:", "**Q1:**").replace("A2:", "**a2**:"))
    assert questions_of(expected) == {"what is cats name", "what color is cat"}


@pytest.mark.parametrize(
    "text, reason",
    [
        (None, "no reply"),
        ("This is Not a good question.", "not a good question"),
        (reply(Q1="The cat's name."), "not a question"),
        (reply(Q2="The cat's color"), "not a question"),
        (reply(Q2="what is the cats NAME ?"), "same question twice"),
        (reply(A1="Tom"), "unanswerable one is answered"),
        (reply(A2="I don't know"), "answerable one is declined"),
        (reply(Q2="What color is the black cat?"), "answer in the question"),
        (reply(A2=""), "malformed reply"),
        (reply() + "\nQ1: again?", "malformed reply"),
        ("\n".join(reply().splitlines()[:3]), "malformed reply"),
        ("Sure!\n" + reply(), "malformed reply"),
        ("\n".join(reply().splitlines()[::-1]), "malformed reply"),
    ],
)
def test_why_a_reply_is_no_pair(text, reason):
    with pytest.raises(UnusableReply, match=f"^{reason}$"):
        read_pair(text)


@pytest.mark.parametrize("question", sorted(questions_of(Written(*PAIR.values()))))
def test_a_question_that_was_asked_before(question):
    with pytest.raises(UnusableReply, match="asked before"):
        read_pair(reply(), {question})


@pytest.mark.parametrize(
    "question, answer, does",
    [("Is the red ball big?", "Red", True), ("Is it red or blue?", "red", False), ("Is it reddish?", "red", False), ("Q?", "", False)],
)
def test_answers_that_stand_in_their_question(question, answer, does):
    assert gives_away(question, answer) is does


def test_a_value_is_one_thing():
    assert value('"red"') == "red"
    with pytest.raises(UnusableReply):
        value("  ")


def test_what_a_taxonomy_says_becomes_sections():
    assert sections({}) == {}
    assert sections({"examples": [" Who? "], "answer": " decline ", "definition": "d"}) == {
        "Questions of this kind": "- Who?", "What a right answer to the first question is": "decline", "Definition": "d",
    }  # fmt: skip
    assert sections({"examples": [reply(), reply()]}) == {"Examples": f"{reply()}\n\n{reply()}"}
    assert "Examples" not in sections({"examples": [reply(), "Who?"]})
