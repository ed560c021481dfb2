"""Histogram binning by hand: bins of equally many answers, ties together."""

import numpy as np

from qualm.runners.plugins.calibrators.histogram import histogram


def test_bins_of_equally_many():
    score, right = np.arange(8.0), np.array([0.0, 0, 1, 0, 1, 1, 1, 0.5])
    found = histogram(score, right, np.ones((1, 8)), np.array([-1.0, 0, 1, 2, 3.5, 4, 6, 99]), bins=4)
    np.testing.assert_allclose(found[0], [0, 0, 0, 0.5, 0.5, 1, 0.75, 0.75])


def test_equal_scores_are_in_one_bin():
    score, right = np.array([0.0, 1, 1, 1, 1, 2]), np.array([0.0, 1, 1, 0, 0, 1])
    found = histogram(score, right, np.ones((1, 6)), np.array([0.0, 1, 2]), bins=3)
    np.testing.assert_allclose(found[0], [0, 0.5, 1])


def test_equal_scores_are_where_their_middle_is():
    score, right = np.array([0.0, 1, 1, 1, 1, 1, 2, 2]), np.array([0.0, 1, 1, 1, 0, 0, 1, 1])
    found = histogram(score, right, np.ones((1, 8)), np.array([0.0, 1, 2]), bins=2)
    np.testing.assert_allclose(found[0], [0.5, 0.5, 1], err_msg="the fourth of eight is the middle of the five")


def test_without_ties_bins_are_numpys_parts():
    rng = np.random.default_rng(0)
    score, right = rng.permutation(120).astype(float), rng.integers(0, 2, 120).astype(float)
    order = np.argsort(score)
    found = histogram(score, right, np.ones((1, 120)), score[order], bins=6)[0]
    np.testing.assert_allclose(found, np.repeat([right[part].mean() for part in np.split(order, 6)], 20))


def test_a_resample_puts_what_it_lacks_with_the_next_lower_score():
    score, right = np.array([2.0, 0, 1, 3]), np.array([1.0, 0, 0, 0.5])
    found = histogram(score, right, np.array([[1.0, 0, 2, 1]]), np.array([-1.0, 0, 1, 2, 3]), bins=4)
    np.testing.assert_allclose(found[0], [0, 0, 0, 1, 0.5])
