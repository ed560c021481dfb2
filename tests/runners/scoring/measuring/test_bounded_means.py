import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from qualm.runners.scoring.limits import critical
from qualm.runners.scoring.measuring.bounded_means import combine_intervals, mean_loss_interval, mean_of_types_interval, weighted_share

Q = critical(0.95, 59)
LEVEL_OF_Q = 2 * stats.norm.sf(Q)


def arithmetic(shares):
    return shares.mean(axis=1)


def harmonic(shares):
    with np.errstate(divide="ignore"):
        return shares.shape[1] / (1 / shares).sum(axis=1)


def test_without_an_error_the_high_end_is_what_wilson_leaves_open():
    """Sixty answers with confidence .9, all right: a Brier score of .01, and an error would cost .81."""
    low, high = mean_loss_interval(np.full(60, 0.01), np.full(60, 0.01), np.full(60, 0.81), np.arange(60), 0.95)
    most = proportion_confint(0, 60, LEVEL_OF_Q, "wilson")[1]
    assert (low, high) == pytest.approx((0.01, 0.01 + 0.8 * most))


def test_losses_that_are_known_beforehand_have_the_interval_of_t():
    known = np.linspace(0, 1, 60)
    low, high = mean_loss_interval(known, known, known, np.arange(60), 0.95)
    half = Q * known.std(ddof=1) / math.sqrt(60)
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half), rel=0.02)


def test_answers_that_decide_over_much_are_a_stratum_of_their_own():
    """Three sure answers, right by luck, among ninety-seven that decide over little: what the three leave open is in the interval."""
    reach = np.repeat([36.0, 0.1], [3, 97])
    wrong = np.r_[np.zeros(3), np.tile([0.0, 1.0], 49)[:97]]
    _, high = mean_loss_interval(reach * wrong, np.zeros(100), reach, np.arange(100), 0.95)
    of_three = proportion_confint(0, 3, 2 * stats.norm.sf(critical(0.95, 2)), "wilson")[1]
    assert high > 36 * 0.03 * of_three


def test_a_partial_rating_may_cost_less_than_right_and_wrong():
    """A confidence of .5 costs .25 either way and nothing for a half-right answer."""
    low, high = mean_loss_interval(np.tile([0.25, 0.0], 30), np.full(60, 0.25), np.full(60, 0.25), np.arange(60), 0.95)
    assert 0 < low < 0.125 < high < 0.25


def test_rows_of_one_group_count_together():
    """Ten groups of six equal rows are as wide as ten rows."""
    losses = np.array([0.2, 0.9, 0.1, 0.4, 0.4, 0.8, 0.3, 0.6, 0.5, 0.2])
    single = mean_loss_interval(losses, np.zeros(10), np.ones(10), np.arange(10), 0.95)
    sixfold = mean_loss_interval(np.repeat(losses, 6), np.zeros(60), np.ones(60), np.repeat(np.arange(10), 6), 0.95)
    assert sixfold[0] <= single[0] + 0.12 and sixfold == pytest.approx(single, abs=0.12)


def test_the_share_of_a_type_has_the_errors_of_the_jackknife():
    outcomes, group = np.array([1.0, 0, 1, 1, 0, 1]), np.array([0, 0, 1, 1, 2, 2])
    share = weighted_share(outcomes, np.ones(6), group, 3, 0.95)
    means = np.array([outcomes[group != g].mean() for g in range(3)])
    assert share.influences == pytest.approx((share.value - means) * (2 / 3))


def test_newcombes_interval_of_two_types():
    """The mean of two proportions is half of their sum: that of the difference of one and the other's complement."""
    outcomes, types = np.repeat([1.0, 0, 1, 0], [200, 80, 250, 50]), np.repeat([0.0, 1.0], [280, 300])
    low, high = mean_of_types_interval(outcomes, np.ones(580), types, np.arange(580), 0.95, arithmetic)
    wilson = confint_proportions_2indep(200, 280, 50, 300, method="newcomb", compare="diff")
    expected = [(1 + end) / 2 for end in wilson]
    assert (low, high) == pytest.approx(expected, abs=0.0005)


def test_a_rare_type_of_which_all_are_right_leaves_an_error_open():
    outcomes = np.r_[np.tile([1.0, 0.0], 500), np.ones(5)]
    types = np.repeat([0.0, 1.0], [1000, 5])
    low, high = mean_of_types_interval(outcomes, np.ones(1005), types, np.arange(1005), 0.95, arithmetic)
    of_five = proportion_confint(5, 5, 2 * stats.norm.sf(critical(0.95, 4)), "wilson")[0]
    assert low < 0.75 - (1 - of_five) / 2 and high < 0.8


def test_a_harmonic_mean_with_a_type_of_which_none_is_right():
    outcomes, types = np.r_[np.zeros(30), np.tile([1.0, 0.0], 15)], np.repeat([0.0, 1.0], [30, 30])
    low, high = mean_of_types_interval(outcomes, np.ones(60), types, np.arange(60), 0.95, harmonic)
    assert low == 0 and 0.1 < high < 0.5


def test_parts_that_groups_move_together_are_wider():
    alone = combine_intervals(1.0, [0.3, 0.4], [0.3, 0.4], np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]]))
    together = combine_intervals(1.0, [0.3, 0.4], [0.3, 0.4], np.array([[1.0, -1.0], [1.0, -1.0]]))
    assert alone == pytest.approx((0.5, 1.5)) and together == pytest.approx((1 - 0.5 * math.sqrt(2), 1 + 0.5 * math.sqrt(2)))
