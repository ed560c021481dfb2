import itertools

import pytest

from qualm.registry.sample import Sample
from qualm.registry.where.evaluate import ValueOfFieldError, meta_keys, verdict
from qualm.registry.where.parse import parse

SAMPLE = Sample(
    sample_id="s", question="Q?", category="x/y", answerable=True, meta={"level": "2", "size": "10", "kind": "cat", "odd": "2x"}
)


def says(text, sample=SAMPLE):
    return verdict(parse(text))(sample)


@pytest.mark.parametrize(
    "text, value",
    [
        ("level == 2", True), ("level != 2", False), ("level < 2", False), ("level <= 2", True), ("level > 1", True), ("level >= 3", False),
        ("size > level", True), ("kind > level", True), ("kind == 'cat'", True), ("kind != 'cat'", False), ("level == '2'", True),
        ("level in (1, 2)", True), ("level in (3)", False), ("kind in ('dog', 'cat')", True), ("kind not in ('dog')", True),
        ("answerable", True), ("not answerable", False), ("category == 'x/y'", True), ("gone == 1", None), ("gone in ('a')", None),
        ("size == level", False),
    ],
)  # fmt: skip
def test_comparisons(text, value):
    assert says(text) is value


def test_numbers_in_two_keys_are_compared_as_numbers():
    sample = Sample(sample_id="s", question="", meta={"a": "9", "b": "10", "c": " 9.0 ", "d": "x"})
    assert says("a < b", sample) is True and says("a == c", sample) is True and says("a < d", sample) is True


TRUTH = {True: "level == 2", False: "level == 3", None: "gone == 1"}


@pytest.mark.parametrize("a, b", itertools.product([True, False, None], repeat=2))
def test_the_undefined_spreads_as_it_does_in_kleenes_logic(a, b):
    both = False if False in (a, b) else None if None in (a, b) else True
    either = True if True in (a, b) else None if None in (a, b) else False
    assert says(f"{TRUTH[a]} and {TRUTH[b]}") is both and says(f"{TRUTH[a]} or {TRUTH[b]}") is either
    assert says(f"not ({TRUTH[a]})") is (None if a is None else not a)


def test_a_key_that_is_compared_with_a_number_and_holds_none():
    with pytest.raises(ValueOfFieldError, match=r"sample 's': expected a number in .*odd, got '2x'; compare it with a text in quotes"):
        says("odd > 1")
    assert says("odd == '2x'") is True


def test_keys_that_an_expression_names():
    assert meta_keys(parse("level > 1 and not (kind in ('a') or size == other) and answerable and category == 'c'")) == {
        "level", "kind", "size", "other",
    }  # fmt: skip
