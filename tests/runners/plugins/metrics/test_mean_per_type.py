import numpy as np
import pytest
from scipy.stats import hmean

from qualm.runners.plugins.metrics.mean_per_type import mean_per_type

CORRECT = np.array([1.0, 1, 1, 0, 1, 0, 0.5, 0.5])
KIND = np.array([0.0, 0, 0, 0, 1, 1, 2, 2])
ONE = np.ones((1, 8))


def test_both_means_by_hand():
    assert mean_per_type(CORRECT, KIND, ONE)[0] == pytest.approx((0.75 + 0.5 + 0.5) / 3)
    assert mean_per_type(CORRECT, KIND, ONE, mean="harmonic")[0] == pytest.approx(hmean([0.75, 0.5, 0.5]))


def test_a_type_with_nothing_right():
    assert mean_per_type(CORRECT * (KIND != 1), KIND, ONE, mean="harmonic")[0] == 0
    assert mean_per_type(CORRECT * (KIND != 1), KIND, ONE)[0] == pytest.approx((0.75 + 0 + 0.5) / 3)


def test_a_resample_without_a_type_is_undefined():
    weights = np.array([[1.0, 1, 1, 1, 0, 0, 1, 1], [2.0, 0, 0, 0, 1, 0, 0, 2]])
    assert np.isnan(mean_per_type(CORRECT, KIND, weights)[0])
    assert mean_per_type(CORRECT, KIND, weights)[1] == pytest.approx((1 + 1 + 0.5) / 3)
