import numpy as np
import pytest
from sklearn.metrics import roc_curve

from qualm.runners.plugins.metrics.fpr_at_tpr import fpr_at_tpr


@pytest.mark.parametrize("levels", [4, 1000])
def test_against_scikit_learns_curve_in_every_resample(levels):
    rng = np.random.default_rng(0)
    uncertainty, correct = rng.integers(0, levels, 200) / 10, rng.choice([0.0, 0.5, 1.0], 200)
    weights = rng.integers(0, 3, (5, 200)) * 1.0
    curves = [roc_curve(correct < 0.5, uncertainty, sample_weight=row, drop_intermediate=False) for row in weights]
    for tpr in (0.5, 0.8, 0.95, 1.0):
        expected = [false[true >= tpr - 1e-12].min() for false, true, _ in curves]
        np.testing.assert_allclose(fpr_at_tpr(uncertainty, correct, weights, tpr=tpr), expected)
