import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.scoring.ranking import auroc_error, tie_sums

SCORE = np.array([3.0, 1.0, 3.0, -2.0])
COLUMNS = [np.array([1.0, 10.0, 100.0, 1000.0]), np.array([1.0, 1.0, 1.0, 1.0])]


def test_ties_are_summed_in_ascending_order():
    first, second = tie_sums(SCORE, COLUMNS, np.array([[1.0, 1, 1, 1], [2.0, 0, 1, 3]]))
    assert first.tolist() == [[1000, 10, 101], [3000, 0, 102]]
    assert second.tolist() == [[1, 1, 2], [3, 0, 3]]


def test_without_ties_every_row_stands_alone():
    (sums,) = tie_sums(np.array([2.0, 1.0]), [np.array([5.0, 7.0])], np.array([[1.0, 3.0]]))
    assert sums.tolist() == [[21, 5]]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=20))
def test_grouped_weights_give_what_dense_ones_do(rows):
    score, column, group = (np.array(values, dtype=float) for values in zip(*rows, strict=True))
    weights = Weights(np.array([[1.0, 1, 1], [0.0, 2, 1]]), group.astype(int))
    ((grouped,), (dense,)) = (tie_sums(score, [column], w) for w in (weights, np.asarray(weights)))
    assert grouped.tolist() == dense.tolist()
    assert grouped.sum(axis=1).tolist() == (np.asarray(weights) @ column).tolist()


@pytest.mark.parametrize("value", [0.5, 0.9, 0.99])
def test_the_error_of_an_auroc_is_that_of_many_samples_of_two_normal_classes(value):
    from scipy.stats import norm, rankdata

    rng = np.random.default_rng(0)
    truth = np.repeat([1, 0], [30, 70])
    scores = rng.normal(size=(3000, 100)) + np.sqrt(2) * norm.ppf(value) * truth
    drawn = (rankdata(scores, axis=1)[:, :30].sum(axis=1) - 30 * 31 / 2) / (30 * 70)  # Mann and Whitney's U as a share
    assert auroc_error(scores[0], 30, 70, value) == pytest.approx(np.std(drawn), rel=0.06)


def test_the_error_of_an_auroc_by_chance_is_mann_and_whitneys_and_of_another_that_of_two_correlated_normals():
    from scipy.stats import multivariate_normal, norm

    score = np.arange(100.0)
    assert auroc_error(score, 30, 70, 0.5) == pytest.approx(np.sqrt(101 / (12 * 30 * 70)))
    tied = np.repeat([0.0, 1, 2], [50, 30, 20])
    part = 1 - (50**3 - 50 + 30**3 - 30 + 20**3 - 20) / (100**3 - 100)
    assert auroc_error(tied, 30, 70, 0.5) == pytest.approx(np.sqrt(101 / (12 * 30 * 70) * part))
    both = multivariate_normal(cov=[[1, 0.5], [0.5, 1]]).cdf([norm.ppf(0.9)] * 2)
    assert auroc_error(score, 30, 70, 0.9) == pytest.approx(np.sqrt((0.09 + 98 * (both - 0.81)) / 2100), rel=1e-4)


def test_ties_make_the_error_small_and_its_ends_are_zero():
    score = np.repeat([0.0, 1.0], [90, 10])
    drawn = [score[np.random.default_rng(k).permutation(100)] for k in range(3000)]
    found = [(s[:50].sum() - s[50:].sum()) / 100 + 0.5 for s in drawn]
    assert auroc_error(score, 50, 50, 0.5) == pytest.approx(np.std(found), rel=0.05)
    assert auroc_error(score, 50, 50, 1.0) == auroc_error(score, 50, 50, 0.0) == 0
