from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qualm.runners.plugins.judges._quantities import equal, plain_math, quantities, read_quantity


@pytest.mark.parametrize(
    "text, value, unit",
    [
        ("-5", -5, ""), ("− 5", -5, ""), ("minus five", -5, ""), ("$29.00", 29, "dollar"), ("-$5", -5, "dollar"), ("€5", 5, "euro"),
        ("9,500", 9500, ""), ("9.500", Fraction(19, 2), ""), ("1,00,000", 100000, ""), ("1 000 000", 10**6, ""), ("1'000", 1000, ""),
        ("1.234.567,89", Fraction(123456789, 100), ""), ("1.234,50", Fraction(2469, 2), ""), ("3,5", Fraction(7, 2), ""),
        ("one hundred and five", 105, ""), ("a thousand", 1000, ""), ("1.5 million", 1500000, ""), ("$3k", 3000, "dollar"),
        (".5", Fraction(1, 2), ""), ("1/2", Fraction(1, 2), ""), ("1 1/2", Fraction(3, 2), ""), ("½", Fraction(1, 2), ""),
        (r"\frac{1}{2}", Fraction(1, 2), ""), (r"$\frac{3}{4}$", Fraction(3, 4), ""), (r"1{,}000", 1000, ""), (r"50\%", 50, "%"),
        ("1.5e3", 1500, ""), (r"1.5 \times 10^{3}", 1500, ""), ("10²", 100, ""), ("10^-2", Fraction(1, 100), ""), ("٣", 3, ""),
        ("5 cm", 5, "cm"), ("5cm", 5, "cm"), ("five kilometres", 5, "km"), ("12 years old", 12, "y"), ("50 percent", 50, "%"),
        ("20 °C", 20, "°c"), (r"90^\circ", 90, "°"), ("324m", 324, "m"), ("12 square centimeters", 12, "cm^2"), ("3 dogs", 3, "dogs"),
        ("about 5", 5, ""), ("**9**", 9, ""), ("5.", 5, ""), ("0,000", 0, ""),
        ("two thirds", Fraction(2, 3), ""), ("a quarter", Fraction(1, 4), ""), ("Half", Fraction(1, 2), ""), ("a dozen", 12, ""),
        ("2^3×10^4", 80000, ""), ("10^2 * 10^3", 10**5, ""), ("-2^2", -4, ""), ("-1 1/2", Fraction(-3, 2), ""), ("2^99", 2**99, ""),
        ("half a dozen", 6, ""), ("three and a half hours", Fraction(7, 2), "h"), ("one tenth", Fraction(1, 10), ""),
    ],
)  # fmt: skip
def test_numbers_are_read_with_sign_unit_and_scale(text, value, unit):
    read = read_quantity(text)
    assert read is not None and (read.value, read.unit) == (value, unit)


@pytest.mark.parametrize(
    "text",
    [
        *("", "red", "2-1", "10:30", "5 or 6", "1.2.3", "<5", "B12", "x5", "1,2,3", "(1,2)", "3/0", "12/25/2020", "5!=3"),
        *("the fifth floor", "quarter past", "2^1000", "1e400", "2 × 10^-400"),
    ],
)
def test_what_is_no_number(text):
    assert read_quantity(text) is None


@pytest.mark.parametrize(
    "reference, answer, is_equal",
    [
        ("5", "-5", False), ("5 km", "5000 m", True), ("5 cm", "5 m", False), ("5 cm", "5", True), ("5", "5 cm", True),
        ("50%", "0.5", True),
        ("50%", "50", True), ("50", "0.5", False), ("$5", "€5", False), ("$5", "5 dollars", True), ("1/3", "0.333", True),
        ("1/3", "0.3", False),
        ("1/3", "0.34", False), ("2 dogs", "2 cats", False), ("12 cm^2", "12 cm", False), ("24 h", "1 day", True),
    ],
)  # fmt: skip
def test_equal_numbers(reference, answer, is_equal):
    first, second = read_quantity(reference), read_quantity(answer)
    assert first is not None and second is not None
    assert equal(first, second) is is_equal


def test_tolerance_and_rounding():
    read = {text: read_quantity(text) for text in ("100", "104", "106", "1.2", "1.234", "1.26")}
    assert equal(read["100"], read["104"], tolerance=0.05) and not equal(read["100"], read["106"], tolerance=0.05)
    assert equal(read["1.2"], read["1.234"], rounded=True) and not equal(read["1.2"], read["1.26"], rounded=True)
    assert not equal(read["1.2"], read["1.234"])


@settings(max_examples=30)
@given(st.integers(-(10**12), 10**12), st.integers(0, 3))
def test_formatted_numbers_are_read_back(number, decimals):
    value = Fraction(number, 10**decimals)
    for text in (f"{number / 10**decimals:.{decimals}f}", f"{number / 10**decimals:,.{decimals}f}"):
        read = read_quantity(text)
        assert read is not None and read.value == value


@settings(max_examples=30)
@given(st.text(max_size=60))
def test_any_text_is_read(text):
    for quantity in quantities(plain_math(text)):
        assert 0 <= quantity.start < quantity.end


@pytest.mark.parametrize("text", ["9" * 5000, "1/" + "9" * 5000, "10^" + "9" * 50, "1e" + "9" * 50, "0^-1", r"\frac{1}{0}"])
def test_a_number_of_any_length_is_read_or_left(text):
    for quantity in quantities(plain_math(text)):
        assert abs(quantity.value) < 10**400


def test_pronouns_are_no_numbers():
    assert not list(quantities(plain_math("one of the dogs, this one and no one")))
