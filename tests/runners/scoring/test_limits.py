import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from qualm.runners.scoring.limits import (
    METHODS,
    critical,
    degrees_of_freedom,
    effective_groups,
    effective_units,
    fisher_interval,
    is_in_range,
    jackknife_error,
    limits,
    quantile,
    standard_error,
    wilson_interval,
)

NOTHING = np.empty(0)


@pytest.mark.parametrize(("level", "freedom"), [(0.95, 9), (0.9, 1), (0.99, 40)])
def test_critical_values_of_students_t(level, freedom):
    assert critical(level, freedom) == pytest.approx(stats.t.ppf((1 + level) / 2, freedom))
    assert critical(level, math.inf) == pytest.approx(stats.norm.ppf((1 + level) / 2))


@pytest.mark.parametrize(("right", "n"), [(0, 20), (4, 20), (10, 20), (96, 100), (100, 100)])
def test_wilsons_interval_as_statsmodels_has_it(right, n):
    share = right / n
    found = wilson_interval(share, math.sqrt(share * (1 - share) / n), stats.norm.ppf(0.975), n)
    assert found == pytest.approx(proportion_confint(right, n, method="wilson"))


@pytest.mark.parametrize("events", [1, 2, 3])
def test_the_near_end_of_rare_events_is_the_limit_of_a_poisson_mean(events):
    """Brown, Cai, DasGupta (2001), equation 10; the far end stays Wilson's."""
    share, q = events / 100, stats.norm.ppf(0.975)
    low, high = wilson_interval(share, math.sqrt(share * (1 - share) / 100), q, 100)
    assert low == pytest.approx(stats.chi2.ppf(0.05, 2 * events) / 2 / 100)
    assert high == pytest.approx(proportion_confint(events, 100, method="wilson")[1])
    mirrored = wilson_interval(1 - share, math.sqrt(share * (1 - share) / 100), q, 100)
    assert mirrored == pytest.approx((1 - high, 1 - low))


def test_rows_that_stand_or_fall_together_count_as_one():
    rng = np.random.default_rng(0)
    right = rng.random(40) < 0.7
    drawn = rng.integers(0, 40, (4000, 40))
    single = limits("proportion", right.mean(), right[drawn].mean(axis=1), NOTHING, 40, 0.95)
    tenfold = np.repeat(right, 10)
    again = limits("proportion", tenfold.mean(), right[drawn].mean(axis=1), NOTHING, 40, 0.95)
    assert (single.low, single.high) == (again.low, again.high)
    expected = proportion_confint(right.sum(), 40, method="wilson")
    assert (single.low, single.high) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("units", [2, 22, 39, 40])
def test_wilsons_interval_of_what_never_varied_ends_at_it_whatever_is_rounded(units):
    """Of 22 and of 39 units the sum of its middle and half its width lies a bit above 1."""
    q = critical(0.95, units - 1)
    low, high = wilson_interval(1.0, 0.0, q, units)
    assert (low, high) == (pytest.approx(1 / (1 + q * q / units)), 1.0)
    assert wilson_interval(0.0, 0.0, q, units) == (0.0, pytest.approx(1 - low))


@pytest.mark.parametrize("units", [1.5, 2, 3])
def test_the_interval_of_t_has_one_degree_of_freedom_at_least(units):
    drawn = np.array([0.4, 0.6])
    found = limits("t", 0.5, drawn, NOTHING, units, 0.9)
    half = stats.t.ppf(0.95, max(1, units - 1)) * 0.1 * math.sqrt(units / max(1, units - 1))
    assert (found.low, found.high) == pytest.approx((0.5 - half, 0.5 + half))


def test_the_standard_error_is_the_larger_of_bootstrap_and_jackknife_and_t_has_the_effective_number_of_groups():
    """A mean of 6 groups, one of them apart: the textbook's standard error, and 1 + 12 / (4.2 - 3 / 5) groups by kurtosis."""
    values = np.array([6.0, 0, 0, 0, 0, 0])
    deleted = (values.sum() - values) / 5
    assert jackknife_error(deleted) == pytest.approx(1.0)
    for spread, error in ((0.5, 1.0), (3.0, 3.0 * math.sqrt(6 / 5))):
        found = limits("t", 1.0, 1 + spread * np.array([1.0, -1.0]), deleted, 6, 0.9)
        half = stats.t.ppf(0.95, 12 / (4.2 - 3 / 5)) * error
        assert (found.low, found.high) == pytest.approx((1 - half, 1 + half))


def test_degrees_of_freedom_of_a_share_are_those_of_its_design_effect():
    """Of independent rows the binomial variance is known by the share, so that rare errors take no degrees of freedom."""
    right = np.r_[np.zeros(3), np.ones(97)]
    deleted = (right.sum() - right) / 99
    assert degrees_of_freedom(0.97, deleted, 100, share=True) == pytest.approx(99)
    assert degrees_of_freedom(0.97, deleted, 100, share=False) < 10
    assert degrees_of_freedom(0.97, deleted, 40.5, share=True) == 39.5
    assert degrees_of_freedom(0.97, NOTHING, 40.5, share=True) == 39.5


def test_fishers_z():
    low, high = fisher_interval(0.6, (1 - 0.36) / math.sqrt(97), 1.96)
    assert (low, high) == pytest.approx(tuple(np.tanh(np.arctanh(0.6) + np.array([-1.96, 1.96]) / math.sqrt(97))))


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_a_perfect_correlation_has_the_interval_of_t(value):
    """atanh of 1 is infinite, so Fisher's z has none."""
    resampled = value * np.array([1.0, 0.96, 0.98, 1.0, 0.94])
    found = limits("correlation", value, resampled, NOTHING, 30, 0.95)
    half = stats.t.ppf(0.975, 29) * standard_error(resampled, 30)
    assert (found.low, found.high) == pytest.approx((value - half, value + half)) and half > 0.01


@pytest.mark.parametrize(
    ("method", "inside", "outside"),
    [("correlation", (-0.999, 0.0, 0.999), (-1.0, 1.0, 1.5)), ("proportion", (0.0, 0.5, 1.0), (-0.001, 1.001, 1.5))],
)
def test_a_correlation_is_within_1_and_a_share_from_0_to_1(method, inside, outside):
    assert [is_in_range(method, value) for value in (*inside, *outside)] == [True] * 3 + [False] * 3


def test_the_standard_error_of_a_mean_is_the_textbooks():
    values = np.random.default_rng(1).normal(size=12)
    drawn = np.random.default_rng(2).integers(0, 12, (100_000, 12))
    assert standard_error(values[drawn].mean(axis=1), 12) == pytest.approx(values.std(ddof=1) / math.sqrt(12), rel=0.01)


@given(
    st.sampled_from([m for m in METHODS if m not in ("own", "none")]),
    st.floats(0, 1),
    st.lists(st.floats(0, 1) | st.just(math.nan), min_size=2, max_size=20),
    st.integers(5, 300),
)
def test_an_interval_holds_its_own_value_and_has_a_width(method, value, resampled, groups):
    drawn = np.array(resampled)
    if np.isnan(drawn).all():
        return
    found = limits(method, value, drawn, NOTHING, groups, 0.95)
    if found.why_none:
        assert math.isnan(found.low) and math.isnan(found.high)
        return
    assert found.low <= value <= found.high and found.low < found.high
    if method in ("proportion", "optimistic"):
        assert found.low >= 0 and found.high <= 1


def test_a_standard_error_is_never_below_the_least_one():
    drawn = np.array([0.97, 0.98, 0.99])
    narrow, wide = (limits("proportion", 0.98, drawn, NOTHING, 50, 0.95, None, least) for least in (lambda value: 0.0, lambda value: 0.05))
    assert wide.low < narrow.low < narrow.high < wide.high
    assert (wide.low, wide.high) == pytest.approx(wilson_interval(0.98, 0.05, critical(0.95, 49), 50))


def test_of_what_is_optimistic_the_bias_counts_twice():
    drawn = np.array([0.85, 0.95, 0.85, 0.95])  # 0.1 above the value, spread 0.05
    found = limits("optimistic", 0.8, drawn, NOTHING, 10_000, 0.95)
    low, high = wilson_interval(0.7, math.hypot(0.05 * math.sqrt(10_000 / 9_999), 0.1), critical(0.95, 9_999), 10_000)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_what_is_skewed_reaches_to_the_outer_of_t_and_percentiles():
    drawn = np.r_[np.full(90, 1.0), np.full(10, 1.5)]
    low, high = (lambda found: (found.low, found.high))(limits("skewed", 1.0, drawn, NOTHING, 50, 0.95))
    error = standard_error(drawn, 50)
    assert (low, high) == pytest.approx((1 - critical(0.95, 49) * error, 1.5))


def test_what_is_skewed_and_cannot_be_negative_has_no_negative_end():
    drawn = np.r_[np.full(90, 1.0), np.full(10, 6.0)]
    assert limits("skewed", 1.0, drawn, NOTHING, 50, 0.95).low == 0.0
    assert limits("skewed", -1.0, drawn - 2, NOTHING, 50, 0.95).low == -1.0


@pytest.mark.parametrize("n", [1, 2, 5, 37, 41, 1000])
@pytest.mark.parametrize("share", [0.0, 0.025, 0.5, 0.975, 1.0])
def test_a_quantile_is_that_of_numpy_to_the_bit(n, share):
    values = np.random.default_rng(n).normal(size=n)
    values[1::5] = np.nan
    assert quantile(values, share) == np.nanquantile(values, share)
    assert math.isnan(quantile(np.full(3, np.nan), share))


def test_the_effective_number_of_groups_of_a_hand_computed_example():
    """Deviations -2, -1, 0, 1, 2: kurtosis 5 * 34 / 10^2 = 1.7, so that 1 + 10 / (1.7 - 1 / 2) exceeds the five groups."""
    assert effective_groups(np.array([1.0, 2.0, 3.0, 4.0, 5.0])) == 5
    # One of six apart from the rest: deviations 5 / 6 and -1 / 6, kurtosis 4.2.
    assert effective_groups(np.array([1.0, 0, 0, 0, 0, 0])) == pytest.approx(1 + 12 / (4.2 - 3 / 5))


@pytest.mark.parametrize("groups", [8, 30])
def test_normal_groups_of_equal_spread_give_the_degrees_of_freedom_of_students_t(groups):
    """In population: a kurtosis of 3 (n - 1) / (n + 1) is what a normal sample is expected to have, 3 in the limit."""
    places = stats.norm.ppf((np.arange(groups) + 0.5) / groups)
    assert effective_groups(places) == pytest.approx(groups)


def test_a_rare_class_has_about_twice_as_many_effective_groups_as_events():
    """The variance of a count of m rare events has the relative variance 1 / m, that of 2 m degrees of freedom."""
    assert effective_groups(np.repeat([1.0, 0.0], [7, 100_000])) - 1 == pytest.approx(14, rel=0.001)


def test_the_effective_number_of_groups_ignores_shift_scale_and_order():
    influences = np.random.default_rng(3).pareto(2, 40)
    expected = effective_groups(influences)
    assert 1 < expected < 40
    assert effective_groups(5 - 1e-9 * influences[::-1]) == pytest.approx(expected)


def test_influences_that_do_not_vary_leave_all_groups():
    assert effective_groups(np.full(7, 0.1) + np.array([1e-17, 0, 0, 0, 0, 0, 0])) == 7
    assert effective_groups(np.array([3.0])) == 1


def test_groups_count_by_their_sizes_as_kish_has_it():
    assert effective_units(np.repeat([7, 3, 9], [4, 4, 4])) == 3
    assert effective_units(np.repeat([0, 1, 2], [10, 1, 1])) == pytest.approx(144 / 102)
