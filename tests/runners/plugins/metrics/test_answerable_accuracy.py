import numpy as np

from qualm.runners.plugins.metrics.answerable_accuracy import answerable_accuracy


def test_over_answerable_questions_alone():
    correct, answerable = np.array([1.0, 0, 0.5, 1]), np.array([1.0, 1, 1, 0])
    assert answerable_accuracy(correct, answerable, np.ones((1, 4)))[0] == 0.5
    assert np.isnan(answerable_accuracy(correct, np.zeros(4), np.ones((1, 4)))[0])
