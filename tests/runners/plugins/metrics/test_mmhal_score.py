import numpy as np

from qualm.runners.plugins.metrics.mmhal_score import mmhal_score


def test_mean_of_the_points():
    np.testing.assert_allclose(mmhal_score(np.array([6.0, 0, 3]), np.array([[1.0, 1, 1], [0, 1, 1]])), [3, 1.5])
