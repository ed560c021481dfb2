import numpy as np
import pytest
from sklearn.metrics import f1_score

from qualm.runners.plugins.metrics.f1_idk import f1_idk


def test_against_scikit_learn_in_every_resample():
    rng = np.random.default_rng(0)
    pred, gt = rng.integers(0, 2, 30) * 1.0, rng.integers(0, 2, 30) * 1.0
    weights = rng.integers(0, 3, (20, 30)) * 1.0
    expected = [f1_score(gt, pred, sample_weight=w, zero_division=np.nan) for w in weights]
    np.testing.assert_allclose(f1_idk(pred, gt, weights), expected)


@pytest.mark.parametrize(("pred", "gt", "expected"), [(0, 0, np.nan), (1, 0, 0), (0, 1, 0), (1, 1, 1)])
def test_zero_division(pred, gt, expected):
    found = f1_idk(np.full(3, float(pred)), np.full(3, float(gt)), np.ones((1, 3)))[0]
    assert found == pytest.approx(expected, nan_ok=True)
