import numpy as np
import pytest
from scipy import stats

from qualm.runners.scoring.limits import Limits, effective_groups
from qualm.runners.scoring.measuring.intervals import interval_columns, intervals
from qualm.runners.scoring.measuring.measured import Measured


def measured(value, resampled):
    return Measured(value, np.array(resampled, dtype=float), 5, 0, "no rows" if np.isnan(value) else "")


def ends(one, level, groups):
    (found,) = intervals([one], level, groups)
    return found.low, found.high


def test_students_t_around_the_value():
    draws = np.random.default_rng(0).normal(size=1000)
    half = stats.t.ppf(0.95, 9) * draws.std() * np.sqrt(10 / 9)
    assert ends(measured(2.0, draws), 0.9, 10) == pytest.approx((2 - half, 2 + half))


def test_undefined_resamples_are_left_out_and_counted():
    one = measured(0.5, [0, 1, np.nan, 0, 1])
    assert one.undefined == 1
    half = stats.t.ppf(0.95, 9) * 0.5 * np.sqrt(10 / 9)
    assert ends(one, 0.9, 10) == pytest.approx((0.5 - half, 0.5 + half))


@pytest.mark.parametrize(
    ("value", "resampled", "groups", "why"),
    [
        (np.nan, [1, 2], 5, ""),
        (1.0, [1, np.nan, np.nan], 5, "undefined in 2 of 3 resamples"),
        (1.0, [1, 2, np.nan, np.nan, np.nan], 5, "undefined in 3 of 5 resamples"),
        (1.0, [0, 1], 4, "4 scored groups: an interval needs 5"),
        (1.0, [1, 1], 5, "every resample gives the same value"),
        (1.0, [], 5, "no resamples"),
    ],
)
def test_no_interval(value, resampled, groups, why):
    assert np.isnan(ends(measured(value, resampled), 0.9, groups)).all()
    assert intervals([measured(value, resampled)], 0.9, groups)[0].why_none == why


def test_the_groups_that_are_scored_count_and_not_those_of_the_slice():
    one = measured(0.5, [0.4, 0.6])
    one.groups = 3
    assert intervals([one], 0.9, 40)[0].why_none == "3 scored groups: an interval needs 5"


@pytest.mark.parametrize(("calibrating", "why"), [(4, "4 groups that calibrate: an interval needs 5"), (5, "")])
def test_the_groups_that_calibrate_count_too(calibrating, why):
    one = measured(0.5, [0.4, 0.6])
    one.calibrating = calibrating
    assert intervals([one], 0.9, 40)[0].why_none == why


@pytest.mark.parametrize(("groups", "fewest", "freedom"), [(9, 7, 14), (6, 6, 11)])
def test_where_groups_calibrate_those_of_the_smaller_side_are_few_and_both_sides_are_free(groups, fewest, freedom):
    draws = np.random.default_rng(0).normal(size=300)
    one = measured(2.0, draws)
    one.calibrating = 7
    half = stats.t.ppf(0.95, freedom) * draws.std() * np.sqrt(fewest / (fewest - 1))
    assert ends(one, 0.9, groups) == pytest.approx((2 - half, 2 + half))


def test_the_effective_number_of_groups_gives_the_degrees_of_freedom():
    draws = np.random.default_rng(0).normal(size=300)
    one = measured(2.0, draws)
    one.units = 7.5
    half = stats.t.ppf(0.95, 6.5) * draws.std() * np.sqrt(7.5 / 6.5)
    assert ends(one, 0.9, 30) == pytest.approx((2 - half, 2 + half))
    one.deleted = 2.0 + 0.001 * np.array([5.0, -1, -1, -1, -1, -1, 0, 0, 0, 0])
    half = stats.t.ppf(0.95, effective_groups(one.deleted) - 1) * draws.std() * np.sqrt(7.5 / 6.5)
    assert ends(one, 0.9, 30) == pytest.approx((2 - half, 2 + half)) and effective_groups(one.deleted) < 7.5


def test_calibrating_groups_add_their_own_degrees_of_freedom():
    draws = np.random.default_rng(0).normal(size=300)
    one = measured(2.0, draws)
    one.units, one.calibrating, one.deleted = 9.0, 7, 2.0 + 0.001 * np.array([5.0, -1, -1, -1, -1, -1, 0, 0, 0, 0])
    half = stats.t.ppf(0.95, effective_groups(one.deleted) - 1 + 7 - 1) * draws.std() * np.sqrt(7 / 6)
    assert ends(one, 0.9, 30) == pytest.approx((2 - half, 2 + half))


def test_half_of_the_resamples_may_be_undefined():
    assert not np.isnan(ends(measured(0.5, [0, np.nan, 1, np.nan]), 0.9, 5)).any()


@pytest.mark.parametrize(("groups", "value", "tested"), [(5, 0.5, True), (4, 0.5, False), (5, np.nan, False)])
def test_a_null_hypothesis_is_tested_with_five_groups(groups, value, tested):
    one = measured(value, [0.4, 0.6])
    one.groups, one.null_test = groups, lambda: (0.25, "as if calibrated")
    row = interval_columns(one, Limits(), 0.9)
    assert (row["p_null"], row["null"]) == ((0.25, "as if calibrated") if tested else (None, None))


def test_nothing_to_measure():
    assert intervals([], 0.9, 3) == []


@pytest.mark.parametrize(("units", "freedom"), [(None, 9 + 7 - 2), (6, 6 + 7 - 2)])
def test_an_interval_of_its_own_at_one_fit_grows_by_what_values_differ_from_fit_to_fit(units, freedom):
    draws = np.random.default_rng(1)
    fixed, moved = draws.normal(0.5, 0.1, 200), draws.normal(0, 0.04, 200)
    one = measured(0.5, fixed + moved)
    one.given, one.calibrating, one.units, one.own_interval = fixed, 7, units, lambda level: (0.5 - level / 10, 0.5 + level / 5)
    reach = stats.t.ppf(0.95, freedom) * moved.std() * np.sqrt(7 / 6)
    assert ends(one, 0.9, 9) == pytest.approx((0.5 - np.hypot(0.09, reach), 0.5 + np.hypot(0.18, reach)))
    one.calibrating = None
    assert ends(one, 0.9, 9) == pytest.approx((0.41, 0.68))


def test_an_interval_of_its_own_holds_the_value_and_has_a_width():
    one = measured(0.5, [0.4, 0.6])
    one.own_interval = lambda level: (0.25, 0.375)
    assert ends(one, 0.9, 9) == (0.25, 0.5)
    one.own_interval = lambda level: (0.5, 0.5)
    assert intervals([one], 0.9, 9)[0].why_none == "every resample gives the same value"
