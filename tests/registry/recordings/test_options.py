import pytest

from qualm.registry.recordings.options import listed_options, option_index, parse_lettered, take_lettered_options, take_options
from qualm.registry.recordings.record import Record

CHOICES = ("a cat", "a dog")


@pytest.mark.parametrize(
    "prompt, found",
    [
        ("What?\nA. a cat\nB. a dog\nAnswer.", ("What?", CHOICES)),
        ("What?\n(A) a cat\n  (B) a dog ", ("What?", CHOICES)),
        ("A. x\nB. y\nWhat?\nA: a cat\nB) a dog", ("A. x\nB. y\nWhat?", CHOICES)),
        ("What?\nA. a cat\nC. a dog", None),
        ("What?\nA. a cat", None),
        ("A. a cat\nB.\nC. x", None),
        ("", None),
    ],
)
def test_options_that_a_prompt_lists(prompt, found):
    assert parse_lettered(prompt) == found


@pytest.mark.parametrize(
    "doc, found",
    [
        ({"choices": ["x", "y"]}, ("x", "y")),
        ({"options": ["x", "y", "z"]}, ("x", "y", "z")),
        ({"choices": {"text": ["x", "y"]}}, ("x", "y")),
        ({"choices": "['x', 'y']"}, ("x", "y")),
        ({"choices": ["x"], "options": ["y", "z"]}, ("y", "z")),
        ({"choices": ["x", 1]}, ()),
        ({"choices": ["x"] * 27}, ("x",) * 27),
        ({"choices": "x, y"}, ()),
        ({}, ()),
    ],
)
def test_options_that_a_document_lists(doc, found):
    assert listed_options(doc) == found


@pytest.mark.parametrize(
    "target, options, place",
    [
        (["B"], CHOICES, 1),
        (["a cat"], CHOICES, 0),
        ([" (b). "], CHOICES, 1),
        (["C"], CHOICES, None),
        (["a cat", "B"], CHOICES, None),
        (["B"], ("B", "A"), None),
        (["x"], ("x", "x"), None),
        ([], CHOICES, None),
    ],
)
def test_the_place_of_the_right_option(target, options, place):
    assert option_index(target, options) == place


def record(prompt, question, target="B"):
    return Record("w", "i", question=question, prompt=prompt, references=(target,))


def test_a_record_becomes_a_multiple_choice_question():
    made = record("", "What?")
    assert take_options(made, CHOICES) and (made.choices, made.answer_index, made.references) == (CHOICES, 1, ())
    other = record("", "What?", "neither")
    assert not take_options(other, CHOICES) and other.choices == () and other.references == ("neither",)
    assert take_options(other, CHOICES, 0) and other.answer_index == 0


def test_options_of_the_prompt_are_no_part_of_the_question():
    prompt = "Look.\nWhat?\nA. a cat\nB. a dog"
    whole, plain = record(prompt, "What?\nA. a cat\nB. a dog"), record(prompt, "What?")
    for made in (whole, plain):
        take_lettered_options(made)
        assert made.question == "What?" and made.choices == CHOICES and made.answer_index == 1
    wrong = record(prompt, "What?", "C")
    take_lettered_options(wrong)
    assert wrong.choices == () and wrong.references == ("C",)
