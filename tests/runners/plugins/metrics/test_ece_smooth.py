import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from qualm.runners.plugins.metrics.ece_smooth import (
    MIN_BANDWIDTH,
    STEPS,
    WAVES,
    _error_and_bandwidth,
    _waves,
    ece_smooth,
    interval,
    null_test,
    smoothed,
)
from qualm.runners.scoring.bootstrap import Bootstrap

N = 120
RNG = np.random.default_rng(0)
CONFIDENCE = 0.5 + 0.5 * RNG.random(N)
CORRECT = (RNG.random(N) < CONFIDENCE - 0.2) * 1.0
GAP = CORRECT - CONFIDENCE


def by_hand(confidence, correct):
    """By the definition: Gaussians and their mirror images, summed on a fine grid, and the bandwidth by root finding."""
    t = (np.arange(500) + 0.5) / 500

    def error(s):
        images = [sign * confidence + 2 * k for k in range(-2, 3) for sign in (1, -1)]
        kernel = sum(norm.pdf(t[:, None], image, s) for image in images)
        return np.abs((kernel * (correct - confidence)).mean(axis=1)).mean()

    return error(brentq(lambda s: error(s) - s, 0.005, 1, xtol=1e-6))


def test_against_its_definition():
    found = ece_smooth(CONFIDENCE, CORRECT, np.zeros(N), np.ones((1, N)))[0]
    assert found == pytest.approx(by_hand(CONFIDENCE, CORRECT), abs=1e-4)


def test_against_relplot():
    relplot = pytest.importorskip("relplot")
    found = ece_smooth(CONFIDENCE, CORRECT, np.zeros(N), np.ones((1, N)))[0]
    assert found == pytest.approx(relplot.smECE(CONFIDENCE, CORRECT), abs=2e-3)


@pytest.mark.parametrize(("low", "high", "gap"), [(0.45, 0.55, 0.1), (0.75, 0.85, 0.1), (0.85, 0.95, 0.05)])
def test_two_opposite_gaps_by_hand(low, high, gap):
    """Half of the answers claim `low` and are right a `gap` more seldom, half claim `high` and are right as much more often: two Gaussians
    that far apart cancel but for gap * (2 Phi(distance / 2s) - 1), and ends are too far away to reflect. In log odds, a quarter of whose
    distance is that at one half, they cancel less: torch-uncertainty's default (0.13: .0593, .0722 and .0499 here)."""

    def error(distance):
        return brentq(lambda s: gap * (2 * norm.cdf(distance / 2 / s) - 1) - s, 1e-4, 1)

    n = 2000
    right = np.concatenate([np.arange(n) < round(n * (low - gap)), np.arange(n) < round(n * (high + gap))]) * 1.0
    value = ece_smooth(np.repeat([low, high], n), right, np.zeros(2 * n), np.ones((1, 2 * n)))[0]
    assert value == pytest.approx(error(high - low), abs=1e-4)
    in_log_odds = error((np.log(high / (1 - high)) - np.log(low / (1 - low))) / 4)
    assert in_log_odds == pytest.approx({0.45: 0.0593, 0.75: 0.0722, 0.85: 0.0499}[low], abs=1e-3)


def test_waves_are_cosines():
    waves = np.hstack([_waves(GAP, CONFIDENCE, 0, 48), _waves(GAP, CONFIDENCE, 48, WAVES)])
    np.testing.assert_allclose(waves, np.cos(np.pi * np.outer(CONFIDENCE, np.arange(WAVES))) * GAP[:, None], atol=1e-13)


@pytest.mark.parametrize("spread", [0.0, 0.001, 0.05, 0.3, 3.0])
def test_the_bandwidth_is_the_one_that_bisection_finds(spread):
    spectrum = np.random.default_rng(2).normal(0, spread, (40, WAVES)) / (1 + np.arange(WAVES)) ** 0.3
    low, high = np.full(40, MIN_BANDWIDTH), np.ones(40)
    for _ in range(STEPS):
        middle = (low + high) / 2
        above = smoothed(spectrum, middle) > middle
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    errors, bandwidths = at_own_bandwidth(np.vstack([spectrum, np.full((1, WAVES), np.nan)]))
    np.testing.assert_allclose(bandwidths[:-1], low, rtol=1e-12)
    np.testing.assert_allclose(errors[:-1], smoothed(spectrum, low), rtol=1e-9)
    assert np.isnan(errors[-1]) and np.isnan(bandwidths[-1])


def at_own_bandwidth(spectrum):
    return _error_and_bandwidth(lambda first, last: spectrum[:, first:last])


def test_a_bandwidth_is_found_in_a_few_steps(monkeypatch):
    """By halves there would be fourteen; lines meet it, and one step is enough where the error lies between its bandwidth and the next."""
    evaluated = []

    def counted(spectrum, bandwidth, chosen):
        evaluated.append(len(bandwidth))
        return smoothed(spectrum, bandwidth, chosen)

    monkeypatch.setitem(_error_and_bandwidth.__globals__, "smoothed", counted)
    at_own_bandwidth(np.zeros((5, WAVES)))
    assert evaluated == [5, 5, 5]
    (weights,) = Bootstrap(np.arange(N), 50, 1).blocks()
    evaluated.clear()
    ece_smooth(CONFIDENCE, CORRECT, np.zeros(N), weights)
    assert evaluated == [50]
    evaluated.clear()
    at_own_bandwidth(np.random.default_rng(2).normal(0, 0.05, (40, WAVES)) / (1 + np.arange(WAVES)) ** 0.3)
    assert sum(evaluated) < 4 * 40


def test_one_gap_everywhere_is_that_gap():
    confidence = np.full(10, 0.8)
    assert ece_smooth(confidence, np.array([1.0] * 5 + [0.0] * 5), np.zeros(10), np.ones((1, 10)))[0] == pytest.approx(0.3, abs=1e-3)


def test_interval_and_test_tell_calibrated_answers_from_others():
    low, high = interval(CONFIDENCE, CORRECT, np.zeros(N), np.arange(N), 0.95)
    assert 0.05 < low < ece_smooth(CONFIDENCE, CORRECT, np.zeros(N), np.ones((1, N)))[0] < high < 0.4
    assert null_test(CONFIDENCE, CORRECT, np.zeros(N), np.arange(N))[0] < 0.05
    calibrated = (np.random.default_rng(1).random(N) < CONFIDENCE) * 1.0
    assert interval(CONFIDENCE, calibrated, np.zeros(N), np.arange(N), 0.95)[0] == 0
    assert null_test(CONFIDENCE, calibrated, np.zeros(N), np.arange(N))[0] > 0.05
