import numpy as np
import pytest
from sklearn.metrics import brier_score_loss

from qualm.runners.plugins.metrics._brier import events
from qualm.runners.plugins.metrics.brier import brier, interval
from qualm.runners.plugins.metrics.brier_reliability import brier_reliability
from qualm.runners.plugins.metrics.brier_resolution import brier_resolution
from qualm.runners.plugins.metrics.brier_uncertainty import brier_uncertainty
from qualm.runners.scoring.bootstrap import Bootstrap

N = 60
RNG = np.random.default_rng(0)
CONFIDENCE, CORRECT = RNG.random(N), RNG.integers(0, 2, N) * 1.0
PROBS, RIGHT = RNG.dirichlet(np.ones(4), N), RNG.integers(0, 4, N) * 1.0
TEST = np.zeros(N)


def test_against_scikit_learn_in_every_resample():
    (weights,) = Bootstrap(np.arange(N) // 2, 10, 1).blocks()
    for found, row in zip(brier(CONFIDENCE, CORRECT, TEST, weights), np.asarray(weights), strict=True):
        assert found == pytest.approx(brier_score_loss(CORRECT, CONFIDENCE, sample_weight=row))
    whole = brier(PROBS, RIGHT, TEST, np.ones((1, N)), over="options")[0]
    assert whole == pytest.approx(brier_score_loss(RIGHT, PROBS, labels=range(4), scale_by_half=False))


def murphy(forecast, outcome, bins):
    """By a loop over bins: reliability, resolution, uncertainty, and what the three miss of the score."""
    place = np.minimum((forecast * bins).astype(int), bins - 1)
    reliability = resolution = within = 0.0
    for b in set(place.tolist()):
        f, y = forecast[place == b], outcome[place == b]
        share = len(f) / len(forecast)
        reliability += share * (f.mean() - y.mean()) ** 2
        resolution += share * (y.mean() - outcome.mean()) ** 2
        within += share * (f.var() - 2 * np.cov(f, y, bias=True)[0, 1])
    return reliability, resolution, outcome.var(), within


@pytest.mark.parametrize("over", ["answer", "options"])
def test_parts_by_a_loop_add_up_to_the_score(over):
    given = (CONFIDENCE, CORRECT) if over == "answer" else (PROBS, RIGHT)
    by_loop = np.sum([murphy(f, y, 7) for f, y in zip(*(x.T for x in events(*given, over)), strict=True)], axis=0)
    one = np.ones((1, N))
    reliability = brier_reliability(*given, TEST, one, over=over, bins=7)[0]
    resolution = brier_resolution(*given, TEST, one, over=over, bins=7, form="murphy")[0]
    exact = brier_resolution(*given, TEST, one, over=over, bins=7)[0]
    uncertainty = brier_uncertainty(*given, TEST, one, over=over)[0]
    np.testing.assert_allclose([reliability, resolution, uncertainty, resolution - exact], by_loop, atol=1e-12)
    assert reliability - exact + uncertainty == pytest.approx(brier(*given, TEST, one, over=over)[0], abs=1e-12)


def test_interval_is_between_nothing_and_the_largest_loss():
    sure, right = np.full(N, 1.0), np.ones(N)
    low, high = interval(sure, right, TEST, np.arange(N), 0.95)
    assert low == 0 and 0.03 < high < 0.1
    low, high = interval(PROBS, RIGHT, TEST, np.arange(N), 0.95, over="options")
    assert 0 < low < brier(PROBS, RIGHT, TEST, np.ones((1, N)), over="options")[0] < high < 2
