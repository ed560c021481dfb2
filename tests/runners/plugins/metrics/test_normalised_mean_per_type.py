import numpy as np
import pytest
from scipy.stats import hmean

from qualm.runners.plugins.metrics.normalised_mean_per_type import normalised_mean_per_type

CORRECT = np.array([1.0, 1, 1, 0, 1, 0])
KIND = np.array([0.0, 0, 0, 0, 1, 1])
ANSWER = np.array([5.0, 5, 5, 7, 7, 7])
ONE = np.ones((1, 6))


def test_the_rare_answer_counts_as_much_as_the_common_one():
    # category 0: "5" is right three of three times, "7" never: (1 + 0) / 2; category 1 has one answer, right half the time
    assert normalised_mean_per_type(CORRECT, KIND, ANSWER, ONE)[0] == pytest.approx((0.5 + 0.5) / 2)
    changed = np.array([1.0, 1, 1, 1, 1, 0])
    assert normalised_mean_per_type(changed, KIND, ANSWER, ONE)[0] == pytest.approx((1 + 0.5) / 2)
    assert normalised_mean_per_type(changed, KIND, ANSWER, ONE, mean="harmonic")[0] == pytest.approx(hmean([1, 0.5]))


def test_resamples():
    without_answer = np.array([[1.0, 1, 1, 0, 1, 1]])
    assert normalised_mean_per_type(CORRECT, KIND, ANSWER, without_answer)[0] == pytest.approx((1 + 0.5) / 2)
    assert np.isnan(normalised_mean_per_type(CORRECT, KIND, ANSWER, np.array([[1.0, 1, 1, 1, 0, 0]]))).all()
