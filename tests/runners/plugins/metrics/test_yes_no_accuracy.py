import numpy as np

from qualm.runners.plugins.metrics.yes_no_accuracy import yes_no_accuracy
from tests.support.checks.yes_no_answers import amber_by_hand, answers, columns


def test_what_is_neither_is_wrong():
    found = yes_no_accuracy(np.array([1.0, 0, -1, 1]), np.array([1.0, 0, 0, 0]), np.array([[1.0, 1, 1, 1], [0, 0, 2, 1]]))
    np.testing.assert_allclose(found, [0.5, 0])


def test_ambers_rounding():
    text, truth = answers()
    found = yes_no_accuracy(*columns(text, truth), np.ones((1, len(text))), convention="amber")
    np.testing.assert_allclose(found, amber_by_hand(text, truth, 0)[0] / 100, atol=1e-12)
