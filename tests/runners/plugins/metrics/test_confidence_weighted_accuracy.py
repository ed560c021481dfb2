import numpy as np
import pytest

from qualm.runners.plugins.metrics.confidence_weighted_accuracy import confidence_weighted_accuracy as cwa

LAVE = np.array([1, 0.5, 0, 1, 0])
P = np.array([0.9, 0.8, 0.7, 0.4, 0.2])


def test_worked_example():
    assert cwa(P, LAVE, np.ones((1, 5)))[0] == pytest.approx(0.16)
    np.testing.assert_allclose([cwa(P, LAVE, w[None])[0] for w in np.eye(5)], [0.9, 0.4, -0.7, 0.4, -0.2])


def test_bounds_and_no_confidence():
    one = np.ones((1, 3))
    assert cwa(np.ones(3), np.ones(3), one)[0] == 1
    assert cwa(np.ones(3), np.zeros(3), one)[0] == -1
    assert cwa(np.zeros(3), np.array([0, 0.5, 1]), one)[0] == 0
