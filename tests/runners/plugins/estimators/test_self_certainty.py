import numpy as np
import pytest

from qualm.runners.plugins.estimators.self_certainty import self_certainty


def plain(distribution):
    """KL of the uniform distribution from this one, as it is defined."""
    p = np.array(distribution)
    return float(np.sum(np.log((1 / len(p)) / p)) / len(p))


def test_worked_example():
    divergences = [plain(p) for p in ((0.9, 0.1), (0.5, 0.5), (0.8, 0.2))]
    np.testing.assert_allclose(divergences, [0.510826, 0.0, 0.223144], atol=1e-6)
    assert self_certainty([np.array(divergences)])[0] == pytest.approx(-0.244656, abs=1e-6)


def test_it_goes_on_where_entropy_has_ended():
    """Two tokens as good as certain, one of them of a model that leaves the rest of the vocabulary less."""
    sure, surer = (plain([1 - 99 * rest, *[rest] * 99]) for rest in (1e-9, 1e-12))
    values = self_certainty([np.array([sure]), np.array([surer])])
    assert values[1] < values[0] - 6
