import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from qualm.runners.scoring.limits import METHODS, critical, fisher_ends, limits, score_ends, standard_error


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


def test_fishers_z():
    low, high = fisher_ends(0.6, (1 - 0.36) / math.sqrt(97), 1.96)
    assert (low, high) == pytest.approx(tuple(np.tanh(np.arctanh(0.6) + np.array([-1.96, 1.96]) / math.sqrt(97))))


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
