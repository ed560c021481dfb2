import numpy as np

from qualm.runners.plugins.conformal.lac import lac


def test_one_minus_probability():
    probs = np.array([[0.5, 0.3, 0.2], [0.9, 0.1, np.nan]])
    np.testing.assert_allclose(lac(probs), [[0.5, 0.7, 0.8], [0.1, 0.9, np.nan]])
