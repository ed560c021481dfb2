import numpy as np
import pytest

from qualm.runners.plugins.metrics.judge_agreement import judge_agreement


def test_is_over_the_labelled_answers_that_do_not_calibrate():
    correct, people = np.array([1.0, 0.5, 0, 1, 0]), np.array([1.0, 1, 0, 0, 0])
    labelled, calibrates = np.array([1.0, 1, 1, 0, 1]), np.array([0.0, 0, 0, 0, 1])
    weights = np.array([[1.0, 1, 1, 1, 1], [0, 2, 1, 5, 5], [0, 0, 0, 3, 0]])
    assert judge_agreement(correct, people, labelled, calibrates, weights) == pytest.approx([2.5 / 3, 2 / 3, np.nan], nan_ok=True)
