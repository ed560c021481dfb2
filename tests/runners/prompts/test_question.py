import pytest

from qualm.runners.prompts.question import INSTRUCTION, messages, p_true_sampling, render_question


def test_open_question_is_left_alone():
    assert render_question("How many cubes are there?") == "How many cubes are there?"


def test_options_get_letters_in_order():
    text = render_question("What color is it?", ["red", "blue", "I don't know"])
    assert text.split("\n") == ["What color is it?", "A. red", "B. blue", "C. I don't know", INSTRUCTION]


def test_more_options_than_letters_is_an_error():
    with pytest.raises(ValueError, match="27 options"):
        render_question("q", ["x"] * 27)


def test_messages_hold_the_image_first():
    (turn,) = messages("q?", ["yes", "no"])
    assert turn["role"] == "user"
    assert [part["type"] for part in turn["content"]] == ["image", "text"]
    assert [part["type"] for part in messages("q?", image=False)[0]["content"]] == ["text"]


def test_a_sampled_answer_is_one_line_whatever_it_holds():
    lines = p_true_sampling("q?", "red", ["red\nor  blue", "", " no "]).split("\n")
    assert lines[2:6] == ["red or blue", "", "no", "Possible answer: red"]
