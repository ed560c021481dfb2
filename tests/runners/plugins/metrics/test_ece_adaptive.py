import numpy as np
import pytest

from qualm.runners.plugins.metrics.ece_adaptive import ece_adaptive, null_test

RNG = np.random.default_rng(0)
N = 120
CONFIDENCE = RNG.permutation(np.linspace(0.3, 0.99, N))
CORRECT = RNG.integers(0, 2, N) * 1.0


@pytest.mark.parametrize("bins", [1, 4, 10])
def test_of_different_confidences_the_bins_are_equal_parts_of_their_order(bins):
    parts = np.split(np.argsort(CONFIDENCE), bins)
    expected = sum(len(p) / N * abs(CORRECT[p].mean() - CONFIDENCE[p].mean()) for p in parts)
    assert ece_adaptive(CONFIDENCE, CORRECT, np.zeros(N), np.ones((1, N)), bins=bins)[0] == pytest.approx(expected)


def test_equal_confidences_share_a_bin_and_resamples_keep_the_bins():
    confidence, correct = np.array([0.5, 0.5, 0.5, 0.9]), np.array([1.0, 0, 0, 1])
    assert ece_adaptive(confidence, correct, np.zeros(4), np.ones((1, 4)), bins=4)[0] == pytest.approx((0.5 + 0.1) / 4)
    assert ece_adaptive(confidence, correct, np.zeros(4), np.array([[3.0, 0, 0, 1]]), bins=4)[0] == pytest.approx((1.5 + 0.1) / 4)


def test_calibrated_answers_are_not_called_uncalibrated_and_others_are():
    confidence = np.linspace(0.5, 0.9, 300)
    right = np.diff(np.floor(np.cumsum(np.concatenate([[0.0], confidence]))))
    p, words = null_test(confidence, right, np.zeros(300), np.arange(300))
    assert p > 0.2 and words.startswith("confidence is each answer's chance to be right")
    assert null_test(confidence, np.where(confidence > 0.8, 0.0, right), np.zeros(300), np.arange(300))[0] < 0.01
