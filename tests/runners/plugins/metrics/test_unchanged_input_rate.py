import numpy as np
import pytest

from qualm.runners.plugins.metrics.unchanged_input_rate import unchanged_input_rate


def test_worked_example():
    assert unchanged_input_rate(np.array([1.0, 0, 0, 1, 1]), np.ones((1, 5)))[0] == pytest.approx(0.4)
