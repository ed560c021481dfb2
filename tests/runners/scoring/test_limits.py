import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from qualm.runners.scoring.limits import (
    METHODS,
    correlation_or_share,
    critical,
    earned_less_lost,
    effective_groups,
    fisher_ends,
    limits,
    mean_of_groups,
    quantile,
    score_ends,
    standard_error,
)


@pytest.mark.parametrize(("level", "freedom"), [(0.95, 9), (0.9, 1), (0.99, 40)])
def test_critical_values_of_students_t(level, freedom):
    assert critical(level, freedom) == pytest.approx(stats.t.ppf((1 + level) / 2, freedom))
    assert critical(level, math.inf) == pytest.approx(stats.norm.ppf((1 + level) / 2))


@pytest.mark.parametrize(("right", "n"), [(0, 20), (1, 20), (10, 20), (97, 100), (100, 100)])
def test_wilsons_interval_as_statsmodels_has_it(right, n):
    share = right / n
    found = score_ends(share, math.sqrt(share * (1 - share) / n), stats.norm.ppf(0.975), n)
    assert found == pytest.approx(proportion_confint(right, n, method="wilson"))


def test_rows_that_stand_or_fall_together_count_as_one():
    rng = np.random.default_rng(0)
    right = rng.random(40) < 0.7
    drawn = rng.integers(0, 40, (4000, 40))
    single = limits("proportion", right.mean(), right[drawn].mean(axis=1), 40, 0.95, 39, 40)
    tenfold = np.repeat(right, 10)
    again = limits("proportion", tenfold.mean(), right[drawn].mean(axis=1), 40, 0.95, 39, 40)
    assert (single.low, single.high) == (again.low, again.high)
    expected = proportion_confint(right.sum(), 40, method="wilson")
    assert (single.low, single.high) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("units", [2, 22, 39, 40])
def test_wilsons_interval_of_what_never_varied_ends_at_it_whatever_is_rounded(units):
    """Of 22 and of 39 units the sum of its middle and half its width lies a bit above 1."""
    q = critical(0.95, units - 1)
    low, high = score_ends(1.0, 0.0, q, units)
    assert (low, high) == (pytest.approx(1 / (1 + q * q / units)), 1.0)
    assert score_ends(0.0, 0.0, q, units) == (0.0, pytest.approx(1 - low))


@pytest.mark.parametrize("freedom", [0, 1, 2])
def test_the_interval_of_t_has_one_degree_of_freedom_at_least(freedom):
    drawn = np.array([0.4, 0.6])
    found = limits("t", 0.5, drawn, 3, 0.9, freedom, 3)
    half = stats.t.ppf(0.95, max(1, freedom)) * 0.1 * math.sqrt(3 / 2)
    assert (found.low, found.high) == pytest.approx((0.5 - half, 0.5 + half))


def test_fishers_z():
    low, high = fisher_ends(0.6, (1 - 0.36) / math.sqrt(97), 1.96)
    assert (low, high) == pytest.approx(tuple(np.tanh(np.arctanh(0.6) + np.array([-1.96, 1.96]) / math.sqrt(97))))


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_a_perfect_correlation_has_the_interval_of_t(value):
    """atanh of 1 is infinite, so Fisher's z has none."""
    resampled = value * np.array([1.0, 0.96, 0.98, 1.0, 0.94])
    found = limits("correlation", value, resampled, 30, 0.95, 29, 30)
    half = stats.t.ppf(0.975, 29) * standard_error(resampled, 30)
    assert (found.low, found.high) == pytest.approx((value - half, value + half)) and half > 0.01


@pytest.mark.parametrize(
    ("method", "inside", "outside"),
    [("correlation", (-0.999, 0.0, 0.999), (-1.0, 1.0, 1.5)), ("proportion", (0.0, 0.5, 1.0), (-0.001, 1.001, 1.5))],
)
def test_a_correlation_is_within_1_and_a_share_from_0_to_1(method, inside, outside):
    assert [correlation_or_share(method, value) for value in (*inside, *outside)] == [True] * 3 + [False] * 3


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
    found = limits(method, value, drawn, groups, 0.95, groups - 1, groups)
    if found.why_none:
        assert math.isnan(found.low) and math.isnan(found.high)
        return
    assert found.low <= value <= found.high and found.low < found.high
    if method in ("proportion", "optimistic"):
        assert found.low >= 0 and found.high <= 1


def test_a_standard_error_is_never_below_the_least_one():
    drawn = np.array([0.97, 0.98, 0.99])
    narrow, wide = (limits("proportion", 0.98, drawn, 50, 0.95, 49, 50, least) for least in (lambda value: 0.0, lambda value: 0.05))
    assert wide.low < narrow.low < narrow.high < wide.high
    assert (wide.low, wide.high) == pytest.approx(score_ends(0.98, 0.05, critical(0.95, 49), 50))


def test_of_what_is_optimistic_the_bias_counts_twice():
    drawn = np.array([0.85, 0.95, 0.85, 0.95])  # 0.1 above the value, spread 0.05
    found = limits("optimistic", 0.8, drawn, 10_000, 0.95, 9_999, 10_000)
    low, high = score_ends(0.7, math.hypot(0.05 * math.sqrt(10_000 / 9_999), 0.1), critical(0.95, 9_999), 10_000)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_the_error_of_a_mean_of_groups_is_that_of_a_ratio_as_statsmodels_has_it():
    from statsmodels.regression.linear_model import OLS

    rng = np.random.default_rng(0)
    group, column = np.sort(rng.integers(0, 12, 100)), rng.normal(size=100)
    robust = OLS(column, np.ones(100)).fit(cov_type="cluster", cov_kwds={"groups": group, "use_correction": False})
    assert mean_of_groups(column, group) == pytest.approx((robust.params[0], robust.bse[0] * math.sqrt(12 / 11)))


def test_without_losses_the_low_end_is_that_of_wilson_and_the_high_end_that_of_t():
    gain = np.linspace(0.5, 1, 100)
    low, high = earned_less_lost(gain, np.zeros(100), 2.0, np.arange(100), 0.95)
    q = critical(0.95, 99)
    half, most_lost = q * gain.std(ddof=1) / 10, 2 * proportion_confint(0, 100, 2 * stats.norm.sf(q), "wilson")[1]
    assert (low, high) == pytest.approx((0.75 - math.hypot(half, most_lost), 0.75 + half))


def test_what_is_skewed_reaches_to_the_outer_of_t_and_percentiles():
    drawn = np.r_[np.full(90, 1.0), np.full(10, 1.5)]
    low, high = (lambda found: (found.low, found.high))(limits("skewed", 1.0, drawn, 50, 0.95, 49, 50))
    error = standard_error(drawn, 50)
    assert (low, high) == pytest.approx((1 - critical(0.95, 49) * error, 1.5))


def test_what_is_skewed_and_cannot_be_negative_has_no_negative_end():
    drawn = np.r_[np.full(90, 1.0), np.full(10, 6.0)]
    assert limits("skewed", 1.0, drawn, 50, 0.95, 49, 50).low == 0.0
    assert limits("skewed", -1.0, drawn - 2, 50, 0.95, 49, 50).low == -1.0


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
