import numpy as np

from qualm.runners.plugins.estimators.p_true import p_true


def test_worked_example_and_edges():
    np.testing.assert_allclose(p_true(np.array([0.7, 1.0, 0.0, np.nan])), [0.356675, 0.0, np.inf, np.nan], atol=1e-6)
