import numpy as np
import pytest

from qualm.runners.plugins.metrics.aurc import aurc

U, CORRECT = np.array([0.1, 0.9, 0.4, 0.3, 0.8, 0.2]), np.array([1.0, 0, 1, 0, 1, 1])


def test_value_of_lm_polygraph_and_by_confidence():
    assert aurc(U, CORRECT, np.ones((1, 6)))[0] == pytest.approx(0.18611111, abs=1e-8)
    assert aurc(1 - U, CORRECT, np.ones((1, 6)), by="confidence")[0] == pytest.approx(0.18611111, abs=1e-8)
