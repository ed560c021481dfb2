import pytest

from runners.judges.rules import is_refusal, normalise, rules


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Cat.", "cat"),
        ("ice-cream", "ice cream"),
        ("1,000", "1000"),
        ("1,00", "1 00"),
        ("U.S.A.", "usa"),
        ("3.5", "3.5"),
        ("two red cubes", "2 red cubes"),
        ("None", "0"),
        ("Don’t", "dont"),
        ("A", "a"),
        ("  ", ""),
        ("Ｒｅｄ", "red"),
    ],
)
def test_normalise(text, expected):
    assert normalise(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "I don't know",
        "I don’t know.",
        "i do not know what it is",
        "I'm not sure",
        "I am uncertain.",
        "Not sure.",
        "No idea",
        "It cannot be determined from the image.",
        "I can't tell.",
        "I cannot see it",
        "Cannot say",
        "It is impossible to tell what color it was",
        "There is not enough information.",
        "Unanswerable",
        "unknown",
        "It is unclear.",
        "Sorry, I'm not certain.",
    ],
)
def test_refusals(text):
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "red",
        "Nothing",
        "No",
        "I know",
        "unknown soldier",
        "I am not sure, but I think blue",
        "Not certain, however it looks like a cube",
        "The man does not know the way",
        "An unclear photo of a cat",
        "He cannot swim",
        "sure",
    ],
)
def test_answers(text):
    assert not is_refusal(text)


def test_ratings():
    questions = ["What color is the cube?"] * 6
    references = [["red"], ["Two", "2 cubes"], ["red"], [], [], ["red"]]
    predictions = ["Red.", "2", "I don't know", "I don't know", "red", "crimson"]
    found = rules(questions, references, predictions)
    assert [j.rating for j in found] == [1, 1, 0, 1, 0, 0]
    assert [j.pred_is_idk for j in found] == [False, False, True, True, False, False]


def test_contained():
    (yes,) = rules(["?"], [["red cube"]], ["It is the red cube, I believe."], match="contained")
    (no,) = rules(["?"], [["red"]], ["bored"], match="contained")
    assert (yes.rating, no.rating) == (1, 0)
    assert rules(["?"], [["red"]], ["It is red"])[0].rating == 0


def test_a_reference_of_nothing_matches_nothing_in_contained():
    assert rules(["?"], [["..."]], ["red"], match="contained")[0].rating == 0
