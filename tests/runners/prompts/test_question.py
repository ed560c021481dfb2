import pytest

from qualm.runners.prompts.question import INSTRUCTION, SHORT, Prompt, messages, p_true_sampling_prompt, render_question, render_target


def test_open_question_is_left_alone():
    assert render_question("How many cubes are there?") == "How many cubes are there?"


def test_options_get_letters_in_order():
    text = render_question("What color is it?", ["red", "blue", "I don't know"])
    assert text.split("\n") == ["What color is it?", "A. red", "B. blue", "C. I don't know", INSTRUCTION]


def test_a_confidence_target_comes_before_the_answer_format():
    target = render_target(0.75)
    assert target.startswith("Answer only if you are > 75% confident, since mistakes are penalized 3 points, while")
    asked = Prompt(confidence_target=0.75, answer_format="short")
    assert asked.text("What is it?") == f"What is it?\n{target} {SHORT}"
    assert Prompt(confidence_target=0.75, answer_format="free").text("What?", ["a", "b"]) == f"What?\nA. a\nB. b\n{target}"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (0.5, "> 50% confident, since mistakes are penalized 1 point,"),
        (0.9, "penalized 9 points,"),
        (0.0, "> 0% confident, since mistakes are penalized 0 points,"),
        (1 / 3, "penalized 0.5 points,"),
    ],
)
def test_the_penalty_of_a_mistake(target, said):
    assert said in render_target(target)


def test_more_options_than_letters_is_an_error():
    with pytest.raises(ValueError, match="27 options"):
        render_question("q", ["x"] * 27)


def test_messages_hold_the_image_first():
    (turn,) = messages("q?", ["yes", "no"])
    assert turn["role"] == "user"
    assert [part["type"] for part in turn["content"]] == ["image", "text"]
    assert [part["type"] for part in messages("q?", n_images=False)[0]["content"]] == ["text"]


def test_a_sampled_answer_is_one_line_whatever_it_holds():
    lines = p_true_sampling_prompt("q?", "red", ["red\nor  blue", "", " no "]).split("\n")
    assert lines[2:6] == ["red or blue", "", "no", "Possible answer: red"]
