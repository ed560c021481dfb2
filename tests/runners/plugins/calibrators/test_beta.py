"""Beta calibration through the contract; its fits are those of tests/runners/scoring/calibration/test_beta_curves.py."""

import numpy as np
import pytest

from qualm.runners.plugins.calibrators.beta import beta

RNG = np.random.default_rng(0)
CONFIDENCE = RNG.beta(3, 1, 400)
RIGHT = (RNG.random(400) < CONFIDENCE**2).astype(float)
AT = np.linspace(0.05, 0.95, 10)


def log_odds(p):
    return np.log(p / (1 - p))


def test_squared_confidences_are_learnt():
    """P(right) = p^2 is near a beta curve; with many answers it comes out, and rises."""
    rng = np.random.default_rng(1)
    confidence = rng.beta(2, 1, 60_000)
    right = (rng.random(60_000) < confidence**2).astype(float)
    probabilities = beta(log_odds(confidence), right, np.ones((1, 60_000)), log_odds(AT))[0]
    np.testing.assert_allclose(probabilities, AT**2, atol=0.03)
    assert (np.diff(probabilities) > 0).all()


def test_a_contrary_confidence_tells_nothing():
    right = (RNG.random(400) < 1 - CONFIDENCE).astype(float)
    np.testing.assert_allclose(beta(log_odds(CONFIDENCE), right, np.ones((1, 400)), log_odds(AT)), right.mean(), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_against_betacal(seed):
    betacal = pytest.importorskip("betacal", reason="betacal, a peer to compare with")
    rng = np.random.default_rng(seed)
    confidence = rng.beta(2, 1, 500)
    right = (rng.random(500) < 0.8 * confidence + 0.1).astype(float)
    peer = betacal.BetaCalibration(parameters="abm").fit(confidence, right)
    np.testing.assert_allclose(beta(log_odds(confidence), right, np.ones((1, 500)), log_odds(AT))[0], peer.predict(AT), atol=2e-3)
