import numpy as np
import pytest

from qualm.runners.plugins.estimators.max_sequence_probability import max_sequence_probability


def test_worked_example():
    assert max_sequence_probability([np.log([0.9, 0.5, 0.8])])[0] == pytest.approx(1.021651, abs=1e-6)


def test_value_of_lm_polygraph():
    assert max_sequence_probability([np.log([0.7, 0.5, 0.9])])[0] == pytest.approx(1.15518264, abs=1e-8)


def test_edges():
    found = max_sequence_probability([np.empty(0), np.array([-np.inf, -1.0]), np.array([0.0])])
    np.testing.assert_array_equal(found, [np.nan, np.inf, 0.0])
