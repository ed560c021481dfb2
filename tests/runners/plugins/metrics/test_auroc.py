import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from qualm.runners.plugins.metrics.auroc import auroc, minimum_standard_error
from qualm.runners.scoring.bootstrap import Bootstrap


@pytest.mark.parametrize("ties", [False, True])
def test_every_resample_against_scikit_learn(ties):
    rng = np.random.default_rng(2)
    score = rng.integers(0, 6, 80) * 1.0 if ties else rng.normal(size=80)
    correct = rng.integers(0, 2, 80) * 1.0
    (weights,) = Bootstrap(rng.integers(0, 30, 80), 40, 3).blocks()
    for value, row in zip(auroc(score, correct, weights), np.asarray(weights), strict=True):
        assert value == pytest.approx(roc_auc_score(1 - correct, score, sample_weight=row))


def test_edges():
    one = np.ones((1, 3))
    score = np.array([1.0, 2, 3])
    assert auroc(np.array([1.0, np.inf, np.inf]), np.array([1.0, 0, 1]), one)[0] == 0.75
    assert auroc(score, np.array([1.0, 0.5, 0]), one)[0] == 1.0
    assert auroc(score, np.array([1.0, 0.5, 0]), one, right_from=1.0)[0] == 1.0


def test_the_least_error_of_a_useless_ranking_is_mann_and_whitneys():
    """Of 30 wrong and 10 right answers without ties: sqrt((30 + 10 + 1) / (12 * 30 * 10))."""
    correct = np.repeat([0.0, 1.0], [30, 10])
    assert minimum_standard_error(np.arange(40.0), correct, 0.5) == pytest.approx((41 / 3600) ** 0.5, abs=1e-9)
