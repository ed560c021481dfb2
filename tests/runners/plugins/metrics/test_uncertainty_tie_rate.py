import numpy as np
import pytest

from qualm.runners.plugins.metrics.uncertainty_reflection_rate import uncertainty_reflection_rate
from qualm.runners.plugins.metrics.uncertainty_tie_rate import uncertainty_tie_rate


def test_worked_example():
    clean, perturbed = np.array([0.2, 0.5, 0.3, 0.9, 0.4, 0.6]), np.array([0.5, 0.5, 0.7, 0.8, 0.9, 0.65])
    assert uncertainty_tie_rate(perturbed, clean, np.ones((1, 6)))[0] == pytest.approx(1 / 6)


def test_up_down_and_tie_are_everything():
    rng = np.random.default_rng(0)
    a, b, one = rng.integers(0, 3, 90) * 1.0, rng.integers(0, 3, 90) * 1.0, np.ones((1, 90))
    up, down = uncertainty_reflection_rate(a, b, one), uncertainty_reflection_rate(b, a, one)
    assert (up + down + uncertainty_tie_rate(a, b, one))[0] == pytest.approx(1.0)
