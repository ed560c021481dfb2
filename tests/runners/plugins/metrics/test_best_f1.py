import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_recall_curve

from qualm.runners.plugins.metrics.best_f1 import best_f1, minimum_standard_error
from qualm.runners.plugins.metrics.best_f1_floor import best_f1_floor
from qualm.runners.scoring.bootstrap import Bootstrap


@pytest.mark.parametrize("ties", [False, True])
def test_every_resample_against_scikit_learn_and_the_floor(ties):
    rng = np.random.default_rng(4)
    score = rng.integers(0, 5, 60) * 1.0 if ties else rng.normal(size=60)
    uncertain = rng.integers(0, 2, 60) * 1.0
    (weights,) = Bootstrap(rng.integers(0, 25, 60), 30, 3).blocks()
    floors = best_f1_floor(score, uncertain, weights)
    for value, floor, row in zip(best_f1(score, uncertain, weights), floors, np.asarray(weights), strict=True):
        precision, recall, _ = precision_recall_curve(uncertain, score, sample_weight=row)
        f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
        floor_too = f1_score(uncertain, np.ones(60), sample_weight=row)
        assert value == pytest.approx(max(f1.max(), floor_too))
        assert floor == pytest.approx(floor_too)
        assert value >= floor - 1e-12


def test_the_least_error_is_that_of_f1_where_hits_are_a_share_of_questions():
    rng = np.random.default_rng(0)
    union = rng.random((20_000, 80)) < 0.8  # hits among the questions that are uncertain or called so
    f1 = 2 * union.mean(axis=1) / (1 + union.mean(axis=1))
    assert minimum_standard_error(np.zeros(80), np.ones(80), 2 * 0.8 / 1.8) == pytest.approx(f1.std(), rel=0.03)
