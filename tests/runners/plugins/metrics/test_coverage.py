import numpy as np

from qualm.runners.plugins.metrics.coverage import coverage


def test_share_of_covered_test_rows():
    found = coverage(np.array([1.0, 0, 1, 1]), np.array([0, 0, 1.0, 0]), np.array([[1.0, 1, 1, 1], [0, 0, 1, 0]]))
    np.testing.assert_allclose(found, [2 / 3, np.nan])
