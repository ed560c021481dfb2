import numpy as np
import pytest

from qualm.runners.plugins.estimators.minimum_token_probability import minimum_token_probability


def test_worked_example():
    assert minimum_token_probability([np.log([0.9, 0.5, 0.8])])[0] == pytest.approx(-np.log(0.5)) == pytest.approx(0.693147, abs=1e-6)


def test_edges():
    values = minimum_token_probability([np.empty(0), np.array([-1.0, -np.inf]), np.zeros(2)])
    np.testing.assert_array_equal(values, [np.nan, np.inf, 0.0])
