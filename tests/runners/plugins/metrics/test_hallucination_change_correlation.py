import numpy as np
import pytest
from scipy.stats import pointbiserialr

from qualm.runners.plugins.metrics.hallucination_change_correlation import hallucination_change_correlation as hcc
from qualm.runners.scoring.bootstrap import Bootstrap

DELTA = np.array([0.3, 0, 0.4, -0.1, 0.5, 0.05])
WRONG = 1 - np.array([1.0, 0, 1, 0, 1, 0])
ONE = np.ones((1, 6))


def test_worked_example():
    assert hcc(DELTA, WRONG, np.ones(6), ONE)[0] == pytest.approx(0.944237, abs=1e-6)
    assert hcc(-DELTA, WRONG, np.ones(6), ONE)[0] == pytest.approx(-0.944237, abs=1e-6)


@pytest.mark.parametrize("only", [False, True])
def test_every_resample_against_scipy(only):
    rng = np.random.default_rng(8)
    delta, correct, clean = rng.normal(size=70) * 1e3, rng.integers(0, 2, 70) * 1.0, rng.integers(0, 3, 70) / 2
    (weights,) = Bootstrap(rng.integers(0, 30, 70), 25, 3).blocks()
    for value, row in zip(hcc(delta, correct, clean, weights, only_clean_correct=only), np.asarray(weights), strict=True):
        rows = np.repeat(np.arange(70), row.astype(int))
        rows = rows[clean[rows] >= 0.5] if only else rows
        became_wrong = (clean[rows] >= 0.5) & (correct[rows] < 0.5)
        assert value == pytest.approx(pointbiserialr(became_wrong, delta[rows]).statistic)


def test_a_resample_of_equal_changes_is_undefined():
    delta = np.array([1e6, 0.1, 0.1, 0.1])
    assert np.isnan(hcc(delta, np.array([1.0, 0, 1, 0]), np.ones(4), np.array([[0.0, 1, 1, 1]]))[0])
