import pytest

from qualm.runners.plugins.judges._reply import LONGEST, cleaned, letter, marked, words


@pytest.mark.parametrize(
    "reply, text",
    [
        ("**B**", "B"),
        ("# Answer\n`C`", "Answer\nC"),
        ("<think>A or B?</think> C", "C"),
        ("<answer>A</answer> no, <answer> B </answer>", "B"),
        (r"so \boxed{\text{D}}", "so  answer: D"),
        ("[B]", "(B)"),
        ("snake_case __bold__", "snake_case bold"),
        ("Ｂ", "B"),
    ],
)
def test_thoughts_markup_and_latex_are_taken_off(reply, text):
    assert cleaned(reply) == text


def test_only_the_end_of_a_long_reply_is_read():
    assert cleaned("B" + "x" * LONGEST) == "x" * LONGEST and cleaned("Bx" + "y" * (LONGEST - 1)).startswith("xy")


def test_words_have_numbers_in_digits_and_what_stands_between_them():
    read = words("(Twenty-one), 1,000 and don’t 3.5")
    assert [w.plain for w in read] == ["21", "1000", "and", "don't", "3.5"]
    assert read[0].before == "(" and read[0].after == "), " and read[-1].after == ""
    assert [w.plain for w in words("two one")] == ["2", "1"] and [w.text for w in words("犬猫")] == ["犬", "猫"]


@pytest.mark.parametrize(
    "text, i, n, loosely, place",
    [
        ("B", 0, 4, False, 1), ("b", 0, 4, False, 1), ("(B) it is", 0, 4, False, 1), ("B. a dog", 0, 4, False, 1),
        ("B", 0, 1, False, None), ("dog", 0, 4, False, None), ("it is B", 2, 4, False, 1), ("it is b", 2, 4, False, None),
        ("it is b", 2, 4, True, 1), ("A dog", 0, 4, False, None), ("A is right", 0, 4, False, 0), ("A, since", 0, 4, False, 0),
        ("I think", 0, 10, False, None), ("it is I", 2, 10, False, 8), ("see C there", 1, 4, False, 2), ("a b", 0, 4, True, None),
        ("I, you", 0, 10, False, None),
    ],
)  # fmt: skip
def test_a_letter_is_an_option_where_it_is_no_article(text, i, n, loosely, place):
    assert letter(words(text), i, n, loosely) == place


@pytest.mark.parametrize(
    "text, is_marked",
    [("(b) x", True), ("b) x", True), ("B: x", True), ("B. x", True), ("B - x", True), ("B\nx", True), ("b. x", False), ("B x", False)],
)
def test_letters_written_as_options_are(text, is_marked):
    assert marked(words(text)[0]) is is_marked


def test_articles():
    assert [w.is_article for w in words("A dog. The, an")] == [True, False, False, False]
