import numpy as np

from qualm.runners.plugins.conformal.aps import aps


def test_ties_together_get_the_larger_sum():
    np.testing.assert_allclose(aps(np.array([[0.26, 0.25, 0.25, 0.24]])), [[0.26, 0.76, 0.76, 1.0]])


def test_ties_sorted_get_different_sums():
    found = aps(np.array([[0.26, 0.25, 0.25, 0.24]]), ties="sorted")
    assert sorted(found[0].round(9)) == [0.26, 0.51, 0.76, 1.0]


def test_both_agree_with_a_loop_without_ties():
    probs = np.random.default_rng(0).dirichlet(np.ones(6), size=200)
    expected = np.array([[sum(p for p in row if p >= own) for own in row] for row in probs])
    np.testing.assert_allclose(aps(probs), expected, atol=1e-12)
    np.testing.assert_allclose(aps(probs, ties="sorted"), expected, atol=1e-12)


def test_padding_stays_nan_and_adds_nothing():
    for ties in ("together", "sorted"):
        found = aps(np.array([[0.6, 0.4, np.nan], [0.2, 0.3, 0.5]]), ties=ties)
        np.testing.assert_allclose(found, [[0.6, 1.0, np.nan], [1.0, 0.8, 0.5]])


def test_never_above_one():
    probs = np.random.default_rng(1).dirichlet(np.ones(50), size=500)
    assert aps(probs).max() <= 1.0
