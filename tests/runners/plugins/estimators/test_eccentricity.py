import numpy as np
import pytest

from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators.eccentricity import eccentricity, spread
from qualm.runners.runtime.settings import Settings

CONTEXT = EstimatorContext(Settings(progress=False))


def test_value_of_lm_polygraph():
    assert spread(np.array([[1, 0.9, 0.2], [0.8, 1, 0.1], [0.3, 0.2, 1]]), 0.9) == pytest.approx(1.00014141, abs=1e-8)


def test_by_hand():
    """Two groups of one draw each: both axes are eigenvectors of eigenvalue 0, and their places lie 1/sqrt(2) from the middle."""
    assert spread(np.eye(2), 0.9) == pytest.approx(1.0)
    assert spread(np.ones((4, 4)), 0.9) == pytest.approx(0.0, abs=1e-12)


def test_edges():
    found = eccentricity(CONTEXT, [["red"] * 10, ["red"], [], ["", "red"], ["", ""]])
    np.testing.assert_allclose(found, [0.0, np.nan, np.nan, 1.0, 0.0], atol=1e-7)
