import numpy as np

from qualm.runners.plugins.metrics.accuracy import accuracy


def test_mean_over_test_rows_for_every_resample():
    weights = np.array([[1.0, 1, 1, 1], [0, 2, 0, 1], [0, 0, 0, 3]])
    found = accuracy(np.array([1, 0.5, 0, 1]), np.array([0, 0, 0, 1.0]), weights)
    np.testing.assert_allclose(found, [0.5, 0.5, np.nan])
