"""Temperature scaling of options and of single confidences."""

import numpy as np
import pytest

from qualm.runners.plugins.calibrators.temperature import temperature


def test_a_known_temperature_of_options_is_undone():
    rng = np.random.default_rng(1)
    true = rng.normal(size=(6000, 4)) * 2
    powers = np.exp(true) / np.exp(true).sum(axis=1, keepdims=True)
    truth = (rng.random(6000)[:, None] > powers.cumsum(axis=1)).sum(axis=1)
    right = (np.arange(4) == truth[:, None]).astype(float)
    said = 2.5 * true  # too sure
    found = temperature(said, right, np.ones((1, 6000)), said[:50])[0]
    np.testing.assert_allclose(found, powers[:50], atol=0.03)
    assert (found.argmax(axis=1) == powers[:50].argmax(axis=1)).all()


def test_log_odds_are_divided_and_even_odds_stay():
    score = np.array([-2.0, -1, 0, 1, 2, 3] * 20)
    right = (np.random.default_rng(0).random(120) < 1 / (1 + np.exp(-score / 2))).astype(float)
    at = np.array([0.0, 1.0, 2.0])
    found = temperature(score, right, np.ones((2, 120)), at)
    odds = np.log(found / (1 - found))
    assert found[0, 0] == 0.5
    assert odds[0, 2] / odds[0, 1] == pytest.approx(2)
