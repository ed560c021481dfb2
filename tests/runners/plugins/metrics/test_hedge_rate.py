import numpy as np

from qualm.runners.plugins.metrics.hedge_rate import hedge_rate


def test_share_of_given_answers_with_a_caveat():
    abstains, hedges = np.array([1.0, 0, 0, 0]), np.array([0.0, 1, 0, 0])
    np.testing.assert_allclose(hedge_rate(abstains, hedges, np.array([[1.0, 1, 1, 1], [0, 1, 1, 0]])), [1 / 3, 0.5])
