import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.scoring.answer_text import in_digits, normalise, word_set


@pytest.mark.parametrize(
    "text, plain",
    [
        ("The Two red-ish cubes.", "2 red ish cubes"),
        ("1,000,000", "1000000"),
        ("1,0000", "1 0000"),
        ("12,34", "12 34"),
        ("3.50 kg.", "3.50 kg"),
        (".5", "5"),
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
        ("", []),
    ],
)
def test_number_words_below_a_hundred(words, digits):
    assert in_digits(words.split()) == digits


@given(st.text(alphabet=string.ascii_letters + string.digits + " .,'-_!’", max_size=30))
def test_a_normalised_answer_holds_plain_words_only(text):
    plain = normalise(text)
    assert plain == " ".join(plain.split()) == plain.casefold()
    assert not set(plain) & set(",'-_!’")


def test_word_set():
    assert word_set("a b\n a") == {"a", "b"}
