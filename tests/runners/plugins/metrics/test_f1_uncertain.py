import numpy as np
import pytest
from sklearn.metrics import f1_score

from qualm.runners.plugins.metrics.f1_uncertain import f1_uncertain
from qualm.runners.scoring.bootstrap import Bootstrap


def test_every_resample_against_scikit_learn():
    rng = np.random.default_rng(3)
    says, is_so = rng.integers(0, 2, 60) * 1.0, rng.integers(0, 2, 60) * 1.0
    (weights,) = Bootstrap(rng.integers(0, 30, 60), 20, 1).blocks()
    for value, row in zip(f1_uncertain(says, is_so, weights), np.asarray(weights), strict=True):
        assert value == pytest.approx(f1_score(is_so, says, sample_weight=row))
