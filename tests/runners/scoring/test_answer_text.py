import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.scoring.answer_text import comparison_text, normalise, numbers_to_digits, word_set, words_of


@pytest.mark.parametrize(
    "text, plain",
    [
        ("The Two red-ish cubes.", "2 red ish cubes"),
        ("1,000,000", "1000000"),
        ("1,0000", "1 0000"),
        ("12,34", "12 34"),
        ("3.50 kg.", "3.50 kg"),
        (".5", ".5"),
        ("The", "the"),
        ("snake_case", "snake case"),
        ("none", "0"),
        ("DON'T", "dont"),
        ("ﬁve", "5"),
    ],
)
def test_case_punctuation_articles_and_number_words_make_no_difference(text, plain):
    assert normalise(text) == plain


@pytest.mark.parametrize(
    "words, digits",
    [
        ("ninety nine", ["99"]),
        ("twenty zero", ["20", "0"]),
        ("twenty ten", ["20", "10"]),
        ("twenty nineteen", ["20", "19"]),
        ("one twenty", ["1", "20"]),
        ("thirty forty two", ["30", "42"]),
        ("eleven", ["11"]),
        ("one million two million", ["1000000", "2000000"]),
        ("two thousand and three thousand", ["2000", "and", "3000"]),
        ("five hundred two hundred", ["500", "200"]),
        ("five hundred two thousand and one", ["502001"]),
        ("two million three hundred thousand", ["2300000"]),
        ("", []),
    ],
)
def test_numbers_in_words_end_where_the_next_begins(words, digits):
    assert numbers_to_digits(words.split()) == digits


@pytest.mark.parametrize(
    "text, other",
    [
        ("5", "-5"), ("5", ".5"), ("C", "C++"), ("C", "C#"), ("F", "F#"), (">5", "<5"), ("x<5", "x>5"), ("10²", "102"), ("!=", "="),
        ("A", "A-"), ("O+", "O-"), ("→", "←"), ("👍", "👎"), ("+", "-"), ("$", "€"), ("?", "!"), ("2-1", "21"), ("10:30", "1030"),
        ("1/2", "12"), ("9,500", "9.500"), ("हिन्दी", "हनद"), ("ไม่", "ไม"), ("the", "a"), ("5'", '5"'), ("m²", "m"), ("(1,2)", "12"),
        ("≥ 2", "≤ 2"), ("♀", "♂"), ("x*y", "xy"), ("50%", "50"), ("é", "e"),
    ],
)  # fmt: skip
def test_what_distinguishes_two_answers_stays(text, other):
    assert comparison_text(text) != comparison_text(other)


@pytest.mark.parametrize(
    "text, other",
    [
        ("x < 5", "x<5"), ("10²", "10^2"), ("−5", "-5"), ("2–1", "2 - 1"), ("1,00,000", "100000"), ("👍", "👍\ufe0f"),
        ("STRASSE", "straße"),
        ("é", "e\u0301"), ("½", "1/2"), ("٣", "3"), ("H₂O", "H2O"), ("R & B", "r and b"), ("**red**", "red"), ("it’s", "Its"),
        ("one hundred and five", "105"), ("a thousand", "1000"), ("Hello, World!", "hello world"), ("<=", "≤"),
    ],
)  # fmt: skip
def test_spellings_of_one_answer_are_equal(text, other):
    assert comparison_text(text) == comparison_text(other)


@given(st.integers(min_value=0, max_value=10**15 - 1))
def test_number_words_equal_their_digits(number):
    num2words = pytest.importorskip("num2words").num2words
    assert normalise(num2words(number)) == str(number)


@given(st.text(max_size=30))
def test_a_normalised_answer_is_normalised(text):
    plain = normalise(text)
    assert plain == " ".join(plain.split())
    assert normalise(plain) == plain or not plain.isascii()


def test_scripts_without_spaces_are_split_by_character():
    assert words_of("红色的车") == ["红", "色", "的", "车"] and words_of("A red car") == ["red", "car"]


def test_word_set():
    assert word_set("a b\n a") == {"a", "b"}
