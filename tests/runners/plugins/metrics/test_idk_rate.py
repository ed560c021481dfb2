import numpy as np

from qualm.runners.plugins.metrics.idk_rate import idk_rate


def test_share_of_refusals():
    np.testing.assert_allclose(idk_rate(np.array([1.0, 0, 0, 1]), np.array([[1.0, 1, 1, 1], [0, 1, 1, 0]])), [0.5, 0])
