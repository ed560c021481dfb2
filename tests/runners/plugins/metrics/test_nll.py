import numpy as np
import pytest
from sklearn.metrics import log_loss

from qualm.runners.plugins.metrics.nll import nll, why_undefined
from qualm.runners.scoring.bootstrap import Bootstrap

N = 50
RNG = np.random.default_rng(0)
CONFIDENCE, CORRECT = RNG.random(N), RNG.integers(0, 2, N) * 1.0
PROBS, RIGHT = RNG.dirichlet(np.ones(4), N), RNG.integers(0, 4, N) * 1.0


def test_against_scikit_learn_in_every_resample():
    (weights,) = Bootstrap(np.arange(N) // 2, 10, 1).blocks()
    dense = np.asarray(weights)
    for found, row in zip(nll(CONFIDENCE, CORRECT, np.zeros(N), weights), dense, strict=True):
        assert found == pytest.approx(log_loss(CORRECT, CONFIDENCE, sample_weight=row))
    for found, row in zip(nll(PROBS, RIGHT, np.zeros(N), weights, over="options"), dense, strict=True):
        assert found == pytest.approx(log_loss(RIGHT, PROBS, labels=range(4), sample_weight=row))


def test_sure_and_wrong_is_dear_or_undefined():
    confidence, correct = np.array([1.0, 0.5]), np.array([0.0, 1.0])
    assert nll(confidence, correct, np.zeros(2), np.ones((1, 2)))[0] == pytest.approx(log_loss(correct, confidence))
    assert np.isnan(nll(confidence, correct, np.zeros(2), np.ones((1, 2)), floor=0.0)[0])
    assert "probability 0" in why_undefined(confidence, correct, np.zeros(2))
    right = nll(confidence, np.array([1.0, 1]), np.zeros(2), np.ones((1, 2)), floor=0.0)[0]
    assert right == pytest.approx(np.log(2) / 2)


def test_half_right_answers_are_half_of_both():
    expected = -(0.5 * np.log(0.8) + 0.5 * np.log(0.2))
    assert nll(np.array([0.8]), np.array([0.5]), np.zeros(1), np.ones((1, 1)))[0] == pytest.approx(expected)


def test_a_calibration_row_that_is_sure_and_wrong_does_not_count():
    calibrates = np.array([1.0, 0])
    assert nll(np.array([0.0, 0.8]), np.ones(2), calibrates, np.ones((1, 2)), floor=0.0)[0] == pytest.approx(-np.log(0.8))
