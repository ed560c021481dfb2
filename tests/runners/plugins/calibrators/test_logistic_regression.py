"""Ridge logistic regression of several scores, against scikit-learn."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.plugins.calibrators.logistic_regression import logistic_regression

RNG = np.random.default_rng(0)
N = 150
SCORE = RNG.normal(size=(N, 3)) * [1.0, 40.0, 0.01] + [0.0, 500.0, -3.0]
RIGHT = (RNG.random(N) < 1 / (1 + np.exp(-SCORE[:, 0] + (SCORE[:, 1] - 500) / 40))).astype(float)
AT = RNG.normal(size=(20, 3)) * [1.0, 40.0, 0.01] + [0.0, 500.0, -3.0]
GROUP = np.arange(N) // 3
COUNTS = np.vstack([np.ones(50), RNG.multinomial(50, np.ones(50) / 50, size=6)]).astype(float)


def sklearns(score, right, at, l2):
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1 / l2, tol=1e-10, max_iter=10_000))
    return model.fit(score, right).predict_proba(at)[:, 1]


@pytest.mark.parametrize("l2", [0.01, 1.0, 30.0])
def test_each_resample_is_scikit_learns_fit_of_its_rows_standardised_anew(l2):
    found = logistic_regression(SCORE, RIGHT, Weights(COUNTS, GROUP), AT, l2=l2)
    assert found.shape == (7, 20)
    for values, counts in zip(found, COUNTS, strict=True):
        rows = np.repeat(np.arange(N), counts[GROUP].astype(int))
        np.testing.assert_allclose(values, sklearns(SCORE[rows], RIGHT[rows], AT, l2), atol=2e-6)


def test_separated_answers_have_a_fit_and_constant_scores_no_weight():
    score = np.column_stack([np.linspace(-1, 1, 40), np.full(40, 7.0)])
    right = (score[:, 0] > 0).astype(float)
    once = np.ones((1, 40))
    found = logistic_regression(score, right, once, score)[0]
    np.testing.assert_allclose(found, sklearns(score, right, score, 1.0), atol=2e-6)
    np.testing.assert_allclose(found, logistic_regression(score[:, :1], right, once, score[:, :1])[0], atol=1e-9)


def test_a_score_that_is_constant_in_a_resample_alone():
    score = np.column_stack([np.r_[np.zeros(30), 1.0], np.linspace(-1, 1, 31)])
    right = np.r_[np.arange(30) % 2, 1.0]
    counts = np.vstack([np.ones(31), np.r_[np.ones(30), 0.0]])
    drawn = logistic_regression(score, right, counts, score)[1]
    np.testing.assert_allclose(drawn[:30], sklearns(score[:30], right[:30], score[:30], 1.0), atol=2e-6)


def test_undefined_where_a_resample_has_one_class():
    counts = np.vstack([np.ones(N), RIGHT, 1 - RIGHT, np.zeros(N)])
    found = logistic_regression(SCORE, RIGHT, counts, AT)
    assert np.isfinite(found[0]).all() and np.isnan(found[1:]).all()
