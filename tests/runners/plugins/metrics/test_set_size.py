import numpy as np

from qualm.runners.plugins.metrics.set_size import set_size


def test_mean_size_over_test_rows():
    found = set_size(np.array([1.0, 2, 6, 3]), np.array([0, 0, 1.0, 0]), np.array([[1.0, 1, 1, 1], [1, 0, 9, 1]]))
    np.testing.assert_allclose(found, [2, 2])
