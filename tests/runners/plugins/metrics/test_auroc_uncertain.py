import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from qualm.runners.plugins.metrics.auroc_uncertain import auroc_uncertain


def test_against_scikit_learn():
    rng = np.random.default_rng(5)
    score, uncertain = rng.integers(0, 9, 50) * 1.0, rng.integers(0, 2, 50) * 1.0
    assert auroc_uncertain(score, uncertain, np.ones((1, 50)))[0] == pytest.approx(roc_auc_score(uncertain, score))
