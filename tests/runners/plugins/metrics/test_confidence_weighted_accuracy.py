import numpy as np
import pytest

from qualm.runners.plugins.metrics.confidence_weighted_accuracy import confidence_weighted_accuracy as cwa
from qualm.runners.plugins.metrics.confidence_weighted_accuracy import interval

LAVE = np.array([1, 0.5, 0, 1, 0])
P = np.array([0.9, 0.8, 0.7, 0.4, 0.2])


def test_worked_example():
    assert cwa(P, LAVE, np.ones((1, 5)))[0] == pytest.approx(0.16)
    np.testing.assert_allclose([cwa(P, LAVE, w[None])[0] for w in np.eye(5)], [0.9, 0.4, -0.7, 0.4, -0.2])


def test_the_interval_reaches_further_to_where_few_wrong_answers_would_put_it():
    confidence, right = np.linspace(0.6, 1, 50), np.r_[np.zeros(1), np.ones(49)]
    value = cwa(confidence, right, np.ones((1, 50)))[0]
    low, high = interval(confidence, right, np.arange(50), 0.95)
    assert low < value < high and value - low > 1.5 * (high - value)
    assert interval(np.ones(50), np.ones(50), np.arange(50), 0.95)[1] == 1
    copies = interval(np.repeat(confidence, 3), np.repeat(right, 3), np.repeat(np.arange(50), 3), 0.95)
    assert copies == pytest.approx((low, high)), "copies say nothing new"
