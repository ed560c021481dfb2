import numpy as np
import pytest

from qualm.runners.plugins.metrics.uncertainty_reflection_rate import uncertainty_reflection_rate

CLEAN = np.array([0.2, 0.5, 0.3, 0.9, 0.4, 0.6])
PERTURBED = np.array([0.5, 0.5, 0.7, 0.8, 0.9, 0.65])


def test_worked_example():
    assert uncertainty_reflection_rate(PERTURBED, CLEAN, np.ones((1, 6)))[0] == pytest.approx(2 / 3)


def test_ties_count_as_none_and_infinity_is_more():
    assert uncertainty_reflection_rate(CLEAN, CLEAN, np.ones((1, 6)))[0] == 0.0
    assert uncertainty_reflection_rate(np.array([np.inf, np.inf]), np.array([1.0, np.inf]), np.ones((1, 2)))[0] == 0.5
