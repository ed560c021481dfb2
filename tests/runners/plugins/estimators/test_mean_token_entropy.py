import numpy as np
import pytest
from scipy.stats import entropy

from qualm.runners.plugins.estimators.mean_token_entropy import mean_token_entropy


def test_worked_example():
    entropies = np.array([entropy([0.9, 0.1]), entropy([0.5, 0.3, 0.2]), entropy([0.8, 0.1, 0.1])])
    np.testing.assert_allclose(entropies, [0.325083, 1.029653, 0.639032], atol=1e-6)
    assert mean_token_entropy([entropies])[0] == pytest.approx(0.664589, abs=1e-6)


def test_value_of_lm_polygraph():
    """A token that cannot come adds nothing."""
    entropies = np.array([entropy(p) for p in ([0.7, 0.2, 0.1], [0.5, 0.5, 0.0], [0.9, 0.05, 0.05])])
    assert mean_token_entropy([entropies])[0] == pytest.approx(0.62978781, abs=1e-8)
