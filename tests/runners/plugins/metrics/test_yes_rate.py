import numpy as np

from qualm.runners.plugins.metrics.yes_rate import yes_rate


def test_of_what_is_said():
    np.testing.assert_allclose(yes_rate(np.array([1.0, 1, 0, -1]), np.array([[1.0, 1, 1, 1], [0, 0, 1, 0]])), [0.5, 0])
