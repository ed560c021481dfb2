"""Platt scaling through the contract; its numbers are those of tests/runners/scoring/calibration/test_logistic.py."""

import numpy as np
from sklearn.calibration import _SigmoidCalibration

from qualm.runners.plugins.calibrators.platt import platt


def test_platts_own_correction_is_scikit_learns():
    rng = np.random.default_rng(0)
    score = rng.normal(size=300)
    right = (rng.random(300) < 1 / (1 + np.exp(1 + 2 * score))).astype(float)  # higher where wrong
    at = np.linspace(-3, 3, 7)
    expected = _SigmoidCalibration().fit(score, right).predict(at)
    np.testing.assert_allclose(platt(score, right, np.ones((1, 300)), at)[0], expected, atol=1e-5)
    assert (np.diff(platt(score, right, np.ones((1, 300)), at)[0]) < 0).all()


def test_separated_answers():
    score = np.r_[np.linspace(-2, -1, 20), np.linspace(1, 2, 20)]
    right = (score > 0).astype(float)
    assert np.isnan(platt(score, right, np.ones((1, 40)), score, prior_correction=False)).all()
    held = platt(score, right, np.ones((1, 40)), score)[0]
    np.testing.assert_allclose(held, _SigmoidCalibration().fit(score, right).predict(score), atol=1e-5)
    assert 0.01 < held[0] < held[-1] < 0.99
