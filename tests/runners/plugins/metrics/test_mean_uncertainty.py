import numpy as np
import pytest

from qualm.runners.plugins.metrics.mean_uncertainty import mean_uncertainty


def test_the_mean_of_each_resample():
    values, weights = np.array([0.2, -0.5, 0.9]), np.array([[1.0, 1, 1], [0, 2, 1], [0, 0, 0]])
    found = mean_uncertainty(values, weights)
    assert found[:2] == pytest.approx([np.mean(values), np.mean([-0.5, -0.5, 0.9])]) and np.isnan(found[2])
