import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from qualm.runners.plugins.metrics.auroc_perturbed import auroc_perturbed
from qualm.runners.scoring.bootstrap import Bootstrap


def test_every_resample_against_scikit_learn():
    rng = np.random.default_rng(6)
    perturbed, clean = rng.integers(1, 6, 40) * 1.0, rng.integers(0, 5, 40) * 1.0
    (weights,) = Bootstrap(np.arange(40) // 2, 20, 1).blocks()
    for value, row in zip(auroc_perturbed(perturbed, clean, weights), np.asarray(weights), strict=True):
        both = np.concatenate([perturbed, clean])
        assert value == pytest.approx(roc_auc_score(np.repeat([1, 0], 40), both, sample_weight=np.tile(row, 2)))
