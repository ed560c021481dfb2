"""The worked example of the method notes: torchcp, MAPIE and crepes agree on its thresholds and sets."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from qualm.runners.data.calibration_split import calibration_rows
from qualm.runners.plugins.conformal.aps import aps
from qualm.runners.plugins.conformal.lac import lac
from qualm.runners.scoring.calibration.conformal_sets import fewest_units, order_statistic, prediction_sets, threshold

CALIBRATION = np.array(
    [
        [0.50, 0.30, 0.15, 0.05],
        [0.40, 0.35, 0.15, 0.10],
        [0.70, 0.10, 0.10, 0.10],
        [0.25, 0.45, 0.20, 0.10],
        [0.10, 0.20, 0.30, 0.40],
        [0.60, 0.20, 0.15, 0.05],
        [0.34, 0.33, 0.23, 0.10],
        [0.05, 0.05, 0.80, 0.10],
        [0.45, 0.40, 0.10, 0.05],
    ]
)
TRUTH = np.array([0, 1, 0, 1, 2, 0, 2, 2, 1])
TEST = np.array([[0.90, 0.05, 0.03, 0.02], [0.40, 0.30, 0.20, 0.10], [0.26, 0.25, 0.25, 0.24]])


def of_truth(score):
    return score(CALIBRATION)[np.arange(9), TRUTH]


def test_scores_of_the_right_options():
    np.testing.assert_allclose(of_truth(lac), [0.50, 0.65, 0.30, 0.55, 0.70, 0.40, 0.77, 0.20, 0.60])
    np.testing.assert_allclose(of_truth(aps), [0.50, 0.75, 0.70, 0.45, 0.70, 0.60, 0.90, 0.80, 0.85])


@pytest.mark.parametrize(("alpha", "standard", "higher"), [(0.1, 0.77, 0.77), (0.2, 0.70, 0.77), (0.3, 0.65, 0.70), (0.4, 0.60, 0.65)])
def test_thresholds(alpha, standard, higher):
    assert threshold(of_truth(lac), alpha, "standard") == pytest.approx(standard)
    assert threshold(of_truth(lac), alpha, "numpy_higher") == pytest.approx(higher)
    if alpha == 0.3:
        assert threshold(of_truth(aps), alpha, "standard") == pytest.approx(0.80)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.15, 0.2, 0.45, 0.7, 0.85, 0.123])
def test_the_rank_of_the_threshold_is_exact(alpha):
    thousandths = round(1000 * (1 - alpha))
    for n in range(1, 400):
        k = -(-(n + 1) * thousandths // 1000)
        assert order_statistic(n, alpha, "standard") == k
        scores = np.arange(1.0, n + 1)
        assert threshold(scores, alpha, "standard") == (k if k <= n else math.inf)
        higher = np.quantile(scores, min(1, k / n), method="higher") if k <= n else math.inf
        assert threshold(scores, alpha, "numpy_higher") == higher


def hierarchical(scores, groups, alpha):
    """The 1 - alpha quantile of Lee, Barber and Willett's distribution, in fractions: for each score, the mass up to it is added anew."""
    codes = sorted(set(groups))
    for limit in sorted(scores):
        mass = Fraction(0)
        for code in codes:
            of = [score for score, group in zip(scores, groups, strict=True) if group == code]
            mass += Fraction(sum(score <= limit for score in of), len(of) * (len(codes) + 1))
        if mass >= 1 - Fraction(str(alpha)):
            return limit
    return math.inf


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12)), min_size=1, max_size=60), st.sampled_from([0.05, 0.1, 0.2, 0.25, 0.123]))
def test_the_threshold_of_groups_is_the_quantile_of_its_definition(rows, alpha):
    scores, groups = (np.array(column) for column in zip(*rows, strict=True))
    assert threshold(scores / 10, alpha, "standard", groups) == hierarchical((scores / 10).tolist(), groups.tolist(), alpha)


@given(st.integers(0, 300), st.integers(0, 9), st.sampled_from([0.05, 0.1, 0.2, 0.45, 0.123]))
def test_of_groups_of_one_row_it_is_that_of_split_conformal_prediction(n, seed, alpha):
    scores = np.random.default_rng(seed).random(n)
    assert threshold(scores, alpha, "standard", np.random.default_rng(seed).permutation(n)) == threshold(scores, alpha, "standard")


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_groups_of_identical_rows_count_once(rows):
    scores = np.random.default_rng(0).random(30)
    assert threshold(np.repeat(scores, rows), 0.1, "standard", np.repeat(np.arange(30), rows)) == threshold(scores, 0.1, "standard")


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2, 0.3, 0.85])
def test_the_fewest_groups_that_have_a_threshold(alpha):
    fewest = fewest_units(alpha)
    for groups in range(1, 30):
        limit = threshold(np.arange(4.0 * groups), alpha, "standard", np.repeat(np.arange(groups), 4))
        assert math.isinf(limit) == (groups < fewest)


@pytest.mark.parametrize("groups", [5, 15, 25])
@pytest.mark.parametrize("world", ["identical", "correlated", "uneven"])
def test_coverage_holds_for_a_new_group_where_that_of_rows_fails(groups, world):
    """500 draws; alpha = .1. Rows counted as independent cover too few of identical rows."""
    rng, of_groups, of_rows = np.random.default_rng(groups), [], []
    for _ in range(500):
        size = np.full(groups + 1, 8) if world != "uneven" else np.minimum(200, 1 + rng.pareto(1.2, groups + 1)).astype(int)
        group = np.repeat(np.arange(groups + 1), size)
        scores = rng.normal(size=groups + 1)[group] + (world != "identical") * rng.normal(size=len(group))
        fit = group < groups
        limits = threshold(scores[fit], 0.1, "standard", group[fit]), threshold(scores[fit], 0.1, "standard")
        for found, limit in zip((of_groups, of_rows), limits, strict=True):
            found.append((scores[~fit] <= limit).mean())
    assert np.mean(of_groups) >= 0.9 - 2 * np.std(of_groups) / math.sqrt(500)
    assert world != "identical" or np.mean(of_rows) < np.mean(of_groups)


def members(inside):
    return [set(np.flatnonzero(row)) for row in inside]


def test_sets():
    inside, empty = prediction_sets(lac(TEST), TEST, threshold(of_truth(lac), 0.3, "standard"), "empty")
    assert members(inside) == [{0}, {0}, set()]
    assert list(empty) == [False, False, True]
    inside, _ = prediction_sets(lac(TEST), TEST, threshold(of_truth(lac), 0.3, "standard"), "argmax")
    assert members(inside) == [{0}, {0}, {0}]
    inside, empty = prediction_sets(aps(TEST), TEST, threshold(of_truth(aps), 0.3, "standard"), "argmax")
    assert members(inside) == [{0}, {0, 1}, {0, 1, 2}]
    assert list(empty) == [True, False, False]


@pytest.mark.parametrize("n", [0, 1, 8])
@pytest.mark.parametrize("quantile", ["standard", "numpy_higher"])
def test_too_few_calibration_rows_let_every_option_in(n, quantile):
    limit = threshold(np.linspace(0, 1, n), 0.1, quantile)
    assert limit == math.inf
    probs = np.array([[0.7, 0.3, np.nan]])
    assert members(prediction_sets(aps(probs), probs, limit, "empty")[0]) == [{0, 1}]


def test_nine_calibration_rows_are_enough():
    assert threshold(np.arange(9.0), 0.1, "standard") == 8


@given(st.integers(9, 700), st.sampled_from([0.05, 0.1, 0.2]))
def test_numpy_higher_is_what_its_name_says(n, alpha):
    scores = np.random.default_rng(n).random(n)
    k = math.ceil((n + 1) * (1 - alpha))
    if k <= n:
        assert threshold(scores, alpha, "numpy_higher") == np.quantile(scores, k / n, method="higher")
        assert threshold(scores, alpha, "standard") == np.sort(scores)[k - 1]


def test_threshold_of_one_lets_every_option_in():
    probs = np.random.default_rng(0).dirichlet(np.ones(6), size=100)
    assert prediction_sets(aps(probs), probs, 1.0, "empty")[0].all()


def test_unscored_rows_stay_empty():
    probs = np.array([[np.nan, np.nan]])
    inside, empty = prediction_sets(lac(probs), probs, math.inf, "argmax")
    assert not inside.any()
    assert not empty.any()


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1])
def test_alpha_out_of_range(alpha):
    with pytest.raises(ValueError, match="alpha: expected a number between 0 and 1"):
        threshold(np.ones(5), alpha, "standard")


def test_rows_split_is_scikit_learns():
    chosen = calibration_rows(np.arange(4377), 0.5, 42, "rows")
    expected, _ = train_test_split(list(range(4377)), train_size=0.5, random_state=42)
    assert set(np.flatnonzero(chosen)) == set(expected)
    assert chosen.sum() == 2188


@given(st.integers(2, 60), st.integers(0, 5), st.sampled_from([0.1, 0.3, 0.5]))
def test_groups_are_never_divided(n_groups, seed, fraction):
    groups = np.sort(np.random.default_rng(seed).integers(0, n_groups, 200))
    if len(set(groups)) < 2:
        return
    chosen = calibration_rows(groups, fraction, seed, "groups")
    assert not set(groups[chosen]) & set(groups[~chosen])
    assert chosen.any()
    assert not chosen.all()
    largest = np.bincount(groups).max()
    assert abs(chosen.sum() - fraction * 200) <= largest


def test_groups_split_depends_on_the_seed_and_on_nothing_else():
    groups = np.repeat(np.arange(50), 3)
    first = calibration_rows(groups, 0.5, 1, "groups")
    assert (first == calibration_rows(groups, 0.5, 1, "groups")).all()
    assert (first != calibration_rows(groups, 0.5, 2, "groups")).any()


@pytest.mark.parametrize(("groups", "split", "message"), [([0, 0, 0], "groups", "one group"), ([0], "rows", "one side of the split empty")])
def test_a_side_would_be_empty(groups, split, message):
    with pytest.raises(ValueError, match=message):
        calibration_rows(np.array(groups), 0.5, 0, split)


def test_coverage_of_the_standard_threshold_holds_on_average():
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(400):
        scores = rng.random(60)
        hits.append((rng.random(60) <= threshold(scores, 0.1, "standard")).mean())
    assert np.mean(hits) >= 0.9 - 0.005
    assert np.mean(hits) <= 0.9 + 1 / 61 + 0.005
