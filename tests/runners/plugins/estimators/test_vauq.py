import numpy as np
import pytest

from qualm.runners.plugins.estimators.vauq import vauq


def test_worked_example():
    assert vauq([np.array([0.4, 0.2])], [np.array([0.6, 0.2])])[0] == pytest.approx(0.1)


def test_it_is_entropy_less_the_information_score_in_nats():
    """From distributions with the core of the picture and without, as the authors' code has it (there in bits)."""
    rng = np.random.default_rng(1)
    seeing, masked = (rng.dirichlet(np.ones(9), size=4) for _ in range(2))
    entropy, without = (-(p * np.log(p)).sum(axis=1) for p in (seeing, masked))
    for alpha in (0.0, 0.6, 1.5):
        expected = entropy.mean() - alpha * (without.mean() - entropy.mean())
        assert vauq([entropy], [without - entropy], alpha=alpha)[0] == pytest.approx(expected, abs=1e-12)
