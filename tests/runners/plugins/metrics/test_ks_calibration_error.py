import numpy as np
import pytest

from qualm.runners.plugins.metrics.ks_calibration_error import ks_calibration_error, null_test
from qualm.runners.scoring.bootstrap import Bootstrap

N = 60
RNG = np.random.default_rng(0)
CONFIDENCE, CORRECT = RNG.integers(0, 20, N) / 20, RNG.integers(0, 2, N) * 1.0


def by_loop(confidence, correct):
    return max(abs((correct - confidence)[confidence <= c].sum()) / len(correct) for c in confidence)


def test_against_a_loop_in_every_resample():
    (weights,) = Bootstrap(np.arange(N) // 2, 8, 1).blocks()
    found = ks_calibration_error(CONFIDENCE, CORRECT, np.zeros(N), weights)
    for value, row in zip(found, np.asarray(weights).astype(int), strict=True):
        drawn = np.repeat(np.arange(N), row)
        assert value == pytest.approx(by_loop(CONFIDENCE[drawn], CORRECT[drawn]))


def test_by_hand():
    confidence, correct = np.array([0.9, 0.6, 0.6]), np.array([1.0, 0, 1])
    assert ks_calibration_error(confidence, correct, np.zeros(3), np.ones((1, 3)))[0] == pytest.approx(0.2 / 3)
    assert ks_calibration_error(confidence, correct, np.array([1.0, 0, 0]), np.ones((1, 3)))[0] == pytest.approx(0.1)


@pytest.mark.parametrize("distinct", [2, 300])
@pytest.mark.parametrize("wrong", ["least sure", "surest", "none"])
def test_where_answers_are_not_calibrated_the_null_test_says_so_wherever_that_is(distinct, wrong):
    """One in five answers is never right. Where those are the surest, only the whole sums tell."""
    n = 300
    confidence = np.where(np.arange(n) < 0.8 * n, 0.5, 0.9) if distinct == 2 else np.linspace(0.5, 0.9, n)
    low, high = confidence <= np.quantile(confidence, 0.2), np.arange(n) >= 0.8 * n
    right = np.diff(np.floor(np.cumsum(np.concatenate([[0.0], confidence]))))
    right[{"least sure": low, "surest": high, "none": np.zeros(n, bool)}[wrong]] = 0
    p, words = null_test(confidence, right, np.zeros(n), np.arange(n))
    assert p < 0.01 if wrong != "none" else p > 0.2
    assert words.startswith("confidence is each answer's chance to be right")
