"""The search on curves that are known."""

import math

import numpy as np
import pytest

from qualm.runners.review.effects import mean_reading, share_reading
from qualm.runners.review.knobs import Knob, Range
from qualm.runners.review.search import Reading, monotone, search

OPEN = Range(Knob("radius", False, 0.0, 40.0, True), 0.0, 40.0, "log")
UNIT = Range(Knob("p", False, 0.0, 1.0, False), 0.0, 1.0, "linear")
DOWN = Range(Knob("factor", False, 0.0, 1.0, False), 1.0, 0.0, "linear")


class Curve:
    """A known effect, measured on n samples, each of which changes at a strength of its own."""

    def __init__(self, effect, n=4000, seed=0):
        self.effect, self.asked = effect, []
        self.chances = np.random.default_rng(seed).random(n)

    def __call__(self, strengths):
        self.asked += strengths
        return [share_reading(s, list(self.chances < self.effect(s)), 0) for s in strengths]


@pytest.mark.parametrize("target", [0.05, 0.2, 0.5])
def test_a_rising_share_is_found_on_a_log_scale(target):
    curve = Curve(lambda s: 1 - math.exp(-s / 7))
    found = search(curve, OPEN, target)
    assert found.why == "" and found.chosen is not None
    assert found.chosen.strength == pytest.approx(-7 * math.log(1 - target), rel=0.12)
    assert found.chosen.low <= target <= found.chosen.high
    assert len(curve.asked) == len(set(curve.asked)) <= 20  # nothing is measured twice


def test_a_falling_parameter_is_searched_from_its_weak_end():
    found = search(Curve(lambda s: (1 - s) ** 2), DOWN, 0.25)
    assert found.chosen is not None and found.chosen.strength == pytest.approx(0.5, abs=0.03)
    assert [r.strength for r in found.readings] == sorted((r.strength for r in found.readings), reverse=True)


def test_it_looks_further_where_nothing_bounds_the_parameter():
    found = search(Curve(lambda s: min(1, s / 1000)), OPEN, 0.5)
    assert found.chosen is not None and found.chosen.strength == pytest.approx(500, rel=0.1)
    assert found.range.strong >= 500


def test_an_effect_that_is_never_reached_is_said_with_the_curve():
    found = search(Curve(lambda s: 0.3 * s), UNIT, 0.5)
    assert found.chosen is None and len(found.readings) == 6
    assert found.why.startswith("even 1 has less effect than asked for: 0.2995 where 0.5")
    found = search(Curve(lambda s: 0.4 + 0.3 * s), UNIT, 0.1)
    assert found.chosen is None and found.why.startswith("even 0 has more effect than asked for")


def test_a_curve_that_turns_back_is_said():
    found = search(Curve(lambda s: 4 * s * (1 - s)), UNIT, 0.5)
    assert found.chosen is None and "not monotone" in found.why and "at the stronger 1" in found.why


def test_chance_among_few_samples_is_no_reason_to_give_up():
    rng = np.random.default_rng(1)

    def noisy(strengths):  # other samples change at every strength, as random noise has it
        return [share_reading(s, list(rng.random(60) < s**0.5), 0) for s in strengths]

    found = search(noisy, UNIT, 0.3)
    assert found.chosen is not None and 0.03 < found.chosen.strength < 0.2


def test_a_leap_over_the_target_gives_the_nearest_and_says_so():
    whole = Range(Knob("k", True, 0.0, 100.0, False), 0, 100, "linear")
    found = search(Curve(lambda s: 0.0 if s < 3 else 0.6), whole, 0.2)
    assert found.chosen is not None and found.chosen.strength == 2
    assert "jumps over the target" in found.why
    assert all(isinstance(r.strength, int) for r in found.readings)


def test_the_same_again_is_the_same():
    one, two = (search(Curve(lambda s: s**2, n=200, seed=5), UNIT, 0.2) for _ in range(2))
    assert one == two


def test_means_have_the_interval_of_a_mean():
    reading = mean_reading(2.0, [0.1, 0.3, 0.2, 0.4], 1)
    half = 1.96 * np.std([0.1, 0.3, 0.2, 0.4], ddof=1) / 2
    assert (reading.value, reading.n, reading.left_out) == (pytest.approx(0.25), 4, 1)
    assert (reading.low, reading.high) == (pytest.approx(0.25 - half), pytest.approx(0.25 + half))
    assert share_reading(1.0, [True, False, False, False], 0).value == 0.25
    assert mean_reading(1.0, [0.5], 0).high == math.inf


def test_nothing_to_measure_is_no_strength():
    found = search(lambda strengths: [Reading(s, math.nan, 0.0, 1.0, 0) for s in strengths], UNIT, 0.2)
    assert found.chosen is None and "no sample" in found.why


def test_the_monotone_curve_is_scikit_learns():
    from sklearn.isotonic import IsotonicRegression

    values, weights = [0.1, 0.3, 0.2, 0.2, 0.5, 0.4], [1, 2, 3, 1, 1, 5]
    expected = IsotonicRegression().fit_transform(range(6), values, sample_weight=weights)
    assert monotone(values, weights) == pytest.approx(list(expected))


def told(values, ask=None):
    """What is measured at each strength as it is told, asked for or not: value, and how far its interval reaches on both sides."""

    def measure(strengths):
        if ask is not None:
            ask.extend(strengths)
        found = [(s, *values(s)) for s in strengths]
        return [Reading(s, value, value - half, value + half, n) for s, value, half, n in found]

    return measure


def test_so_many_strengths_are_measured_and_no_more():
    asked = []
    never = search(told(lambda s: (0.0, 0.1, 9), asked), OPEN, 0.5)
    assert len(asked) == 6 + 6 and never.range.strong == 40 * 2**6 and never.chosen is None, "a grid, and six times twice as far"
    asked.clear()
    assert search(told(lambda s: (s, 0.1, 9), asked), UNIT, 0.41, max_strengths=8).chosen and len(asked) == 8
    asked.clear()
    found = search(told(lambda s: (s, 0.1, 9), asked), UNIT, 0.41)
    assert len(asked) == 12 and found.chosen.strength == pytest.approx(0.41, abs=0.004), "0.2 halved six times is nearer than 0.004"
    asked.clear()
    assert not search(told(lambda s: (s / 40, 0.0, 9), asked), OPEN, 1.0).why and max(asked) == 40, "reached at the end: no further"


def test_a_target_at_an_end_of_the_curve_or_of_an_interval_is_reached():
    assert (
        search(told(lambda s: (s, 0.0, 9)), UNIT, 0.0).chosen.strength == 0
        and search(told(lambda s: (s, 0.0, 9)), UNIT, 1.0).chosen.strength == 1
    )
    touching = search(told(lambda s: (0.3 if s < 1 else 0.1, 0.1, 9)), UNIT, 0.2)
    assert "monotone" not in touching.why, "intervals that touch the target contradict nothing"
    leap = search(told(lambda s: (0.0 if s < 0.5 else 0.5, 0.25, 9)), UNIT, 0.25)
    assert leap.chosen is not None and leap.why == "", "the target is the end of the interval"
    assert "no sample" in search(told(lambda s: (s, 0.0, 0 if s == 0 else 9)), UNIT, 0.3).why
