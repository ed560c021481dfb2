import itertools

import numpy as np
import pytest
from sklearn.metrics import auc

from qualm.runners.plugins.metrics.risk_coverage import risk_coverage

CONFIDENCE, SCORE = np.array([0.9, 0.8, 0.7, 0.6, 0.5]), np.array([1.0, 1, 0, 1, 0])


def by_hand(confidence, score):
    order = np.argsort(-confidence, kind="stable")
    k = np.arange(1, len(order) + 1)
    risk = 1 - np.cumsum(score[order]) / k
    return auc(k / len(order), risk), risk.mean()


def test_worked_example():
    one = np.ones((1, 5))
    assert risk_coverage(CONFIDENCE, SCORE, one)[0] == pytest.approx(0.156667, abs=1e-6)
    assert risk_coverage(CONFIDENCE, SCORE, one, form="mean")[0] == pytest.approx(0.196667, abs=1e-6)


def test_value_of_lm_polygraph():
    """Its area under the risk-coverage curve."""
    u, correct = np.array([0.1, 0.9, 0.4, 0.3, 0.8, 0.2]), np.array([1.0, 0, 1, 0, 1, 1])
    assert risk_coverage(-u, correct, np.ones((1, 6)), form="mean")[0] == pytest.approx(0.18611111, abs=1e-8)


def test_against_scikit_learn():
    rng = np.random.default_rng(0)
    confidence, score = rng.permutation(40) / 40, rng.random(40)
    for form, k in (("trapezoid", 0), ("mean", 1)):
        assert risk_coverage(confidence, score, np.ones((1, 40)), form=form)[0] == pytest.approx(by_hand(confidence, score)[k])


def test_ties_are_the_mean_over_their_orders():
    score = np.array([1.0, 0, 1, 1])
    orders = [by_hand(np.array([3.0, 2, 1, 0]), score[[*p, 3]])[0] for p in itertools.permutations(range(3))]
    assert risk_coverage(np.array([0.9, 0.9, 0.9, 0.1]), score, np.ones((1, 4)))[0] == pytest.approx(np.mean(orders))


def test_a_single_answer():
    assert np.isnan(risk_coverage(np.array([0.5]), np.array([1.0]), np.ones((1, 1)))[0])
