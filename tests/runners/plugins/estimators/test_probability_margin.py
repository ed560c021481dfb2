import numpy as np
import pytest

from qualm.runners.plugins.estimators.probability_margin import probability_margin


def test_worked_example():
    tops = [[np.log(p) for p in ((0.9, 0.1), (0.5, 0.3), (0.8, 0.1))]]
    assert probability_margin(tops)[0] == pytest.approx(1 - (0.8 + 0.2 + 0.7) / 3) == pytest.approx(0.433333, abs=1e-6)


def test_a_tie_is_most_uncertain():
    values = probability_margin([[np.log([0.5, 0.5])], [np.log([0.4, 0.4, 0.1])], [np.array([0.0, -300.0])]])
    np.testing.assert_allclose(values, [1.0, 1.0, 0.0])
