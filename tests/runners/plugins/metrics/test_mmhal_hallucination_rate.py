import numpy as np

from qualm.runners.plugins.metrics.mmhal_hallucination_rate import mmhal_hallucination_rate


def test_below_three_is_a_hallucination():
    np.testing.assert_allclose(mmhal_hallucination_rate(np.array([6.0, 2, 3, 0]), np.array([[1.0, 1, 1, 1], [1, 0, 1, 0]])), [0.5, 0])
