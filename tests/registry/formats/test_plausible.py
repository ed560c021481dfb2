"""Numbers that cannot be are a reason, and those that can come as they were."""

import math

import pytest

from qualm.registry.formats.plausible import (
    ImplausibleReason,
    at_least_zero,
    check_lengths,
    finite,
    finite_number,
    log_probabilities,
    probability,
)
from qualm.registry.recordings.record import CHECKS, drop_impossible
from qualm.registry.sample import GENERATIONS

NEVER = [None, "x", b"x", 5, {}, [None], ["1"], [True], [[1.0]], [math.nan], [math.inf], [-math.inf], [10**400], [10**100_000]]


@pytest.mark.parametrize("check", [log_probabilities, at_least_zero, finite])
@pytest.mark.parametrize("values", NEVER, ids=lambda v: repr(v)[:20] if v != [10**100_000] else "huge")
def test_what_is_no_list_of_finite_numbers(check, values):
    found = check(values)
    assert isinstance(found, ImplausibleReason) and 0 < len(found) < 100


@pytest.mark.parametrize("check", [log_probabilities, at_least_zero, finite])
def test_nothing_is_plausible(check):
    assert check([]) == []


def test_values_that_can_be_are_as_they_were():
    values = [-0.0, -1e-300, -3.25, -1e300]
    assert [v.hex() for v in log_probabilities(values)] == [v.hex() for v in values]
    assert log_probabilities([1e-5]) == [0.0] and isinstance(log_probabilities([1e-3]), ImplausibleReason)
    assert at_least_zero([2226.0, 0.5]) == [2226.0, 0.5] and isinstance(at_least_zero([-2226.0]), ImplausibleReason)


@pytest.mark.parametrize(
    ("value", "good"), [(0, True), (1, True), (0.5, True), (1.00001, True), (1.1, False), (148.0, False), (-0.1, False)]
)
def test_probabilities(value, good):
    assert isinstance(probability(value), ImplausibleReason) != good


@pytest.mark.parametrize("value", [None, "1", [1.0], True, math.nan, math.inf, -math.inf, 10**400])
def test_one_finite_number(value):
    assert isinstance(finite_number(value), ImplausibleReason)
    assert [finite_number(v) for v in (0, 1.0, -7.5, 100)] == [0.0, 1.0, -7.5, 100.0]


@pytest.mark.parametrize(("excess", "good"), [(1e-5, True), (1.5e-5, False)])
def test_what_rounding_may_add_is_taken_off(excess, good):
    assert log_probabilities([-1.0, excess]) == ([-1.0, 0.0] if good else f"a log-probability above 0: {excess}")
    assert at_least_zero([1.0, -excess]) == ([1.0, 0.0] if good else f"below 0: {-excess}")
    assert probability(-excess) == (0.0 if good else f"a probability of {-excess}")
    assert probability(1 + excess) == (1.0 if good else f"a probability of {1 + excess}")


def test_whole_numbers_of_many_digits():
    assert finite([2**1000 - 1]) == [float(2**1000 - 1)]
    assert finite([2**1000]) == finite([-(2**1000)]) == "not finite: a number of 302 digits"
    assert finite([2**9998]) == f"not finite: a number of {len(str(2**9998))} digits"
    assert finite([2**9999]) == "not finite: a number of thousands of digits"


def test_lengths():
    assert check_lengths({}) is None and check_lengths({"a": [1]}) is None and check_lengths({"a": [1], "b": (2,)}) is None
    assert check_lengths({"a": [1], "b": []}) == "lengths that disagree: a 1, b 0"


def test_every_column_of_numbers_is_checked():
    numeric = {f.name for f in GENERATIONS} - {
        "sample_id",
        "variant",
        "draw",
        "text",
        "said_confidence",
        "input_digest",
        "thinking",
        "no_answer",
        "finish",
    }
    assert CHECKS.keys() == numeric
    for name in numeric:
        kept, reasons = drop_impossible({"text": "a", name: "nonsense"})
        assert kept == {"text": "a"} and len(reasons) == 1 and name in reasons[0]


def test_lists_of_other_lengths_are_all_undefined():
    answer = {"text": "a b", "token_logprobs": [-1, -2], "token_entropies": [0.5], "p_yes": 0.5}
    assert drop_impossible(answer) == ({"text": "a b", "p_yes": 0.5}, ["lengths that disagree: token_logprobs 2, token_entropies 1"])
